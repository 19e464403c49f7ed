"""A third list: networks as users write them, of torch and nothing else. Importing it adds them to LIBRARIES.

Each has a habit or two that libraries' models rarely have: weights that two calls share, writes in place, several index
tensors, states, outputs of several tensors, steps of a recurrent cell in a loop. `make` returns (module, inputs), and
may return keyword inputs as a third.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from library_models import model


class Lifted(nn.Module):
    """A network without parameters, after a scale of its first input."""

    def __init__(self, inner, size):
        super().__init__()
        self.inner, self.gain = inner, nn.Parameter(torch.randn(size))

    def forward(self, x, *others):
        return self.inner(x * self.gain, *others)


def written(*inputs, open_batch=False, library="written", **keywords):
    """Adds a class without arguments under its own name; inputs: shapes, or functions that make one. open_batch: it is
    exported for any batch."""
    def add(kind):
        def make():
            made = [i() if callable(i) else torch.randn(i) for i in inputs]
            net = kind()
            if not list(net.parameters()):
                net = Lifted(net, made[0].shape[-1])
            net.open_batch, net.mixes = open_batch, hasattr(kind, "mixes")
            return (net, tuple(made), {k: torch.randn(s) for k, s in keywords.items()})[:3 if keywords else 2]
        model(library, kind.__name__)(make)
        return kind
    return add


def whole(high, *shape):
    return lambda: torch.randint(0, high, shape)


def conv(a, b, k=3, **more):
    return nn.Conv2d(a, b, k, padding=k // 2, **more)


class Net(nn.Module):
    """Layers by name: Net.layers(a=nn.Linear(3, 4))."""

    def layers(self, **of):
        for name, layer in of.items():
            setattr(self, name, layer)


# ---- convolutions, norms, resizing ----

class Residual(nn.Module):
    def __init__(self, c, groups=4):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(groups, c), nn.SiLU(), conv(c, c), nn.GroupNorm(groups, c), nn.SiLU(),
                                  conv(c, c))

    def forward(self, x):
        return x + self.body(x)


@written((2, 3, 16, 16))
class ResidualNet(Net):
    def __init__(self):
        super().__init__()
        self.layers(stem=conv(3, 8), blocks=nn.ModuleList(Residual(8) for _ in range(3)), head=nn.Linear(8, 4))

    def forward(self, x):
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i % 2 == 0:
                x = F.avg_pool2d(x, 2)
        return self.head(x.flatten(2).mean(-1))


@written((2, 4, 12, 12))
class Separable(Net):
    """Depthwise, dilated and transposed convolutions, padding modes, pixel shuffle."""

    def __init__(self):
        super().__init__()
        self.layers(depth=nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=4, padding_mode="reflect"),
                    point=nn.Conv2d(4, 8, 1, bias=False), norm=nn.BatchNorm2d(8),
                    edge=nn.Conv2d(8, 8, 3, padding=1, padding_mode="replicate"),
                    ring=nn.Conv2d(8, 16, (3, 5), padding=(1, 2), padding_mode="circular"),
                    up=nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=2))

    def forward(self, x):
        y = F.hardswish(self.norm(self.point(self.depth(x))))
        y = F.pixel_shuffle(self.ring(F.relu6(self.edge(y))), 2)
        return F.pixel_unshuffle(self.up(y), 4).mean(dim=(1,))


@written((2, 3, 9, 11))
class Resizing(nn.Module):
    def forward(self, x):
        a = F.interpolate(x, scale_factor=2, mode="nearest")
        b = F.interpolate(x, size=(18, 22), mode="bilinear", align_corners=True)
        c = F.interpolate(x, size=(18, 22), mode="bicubic", align_corners=False)
        d = F.interpolate(F.interpolate(x, size=(5, 7), mode="bilinear", antialias=True), size=(18, 22), mode="area")
        return a + b * c + d


@written((2, 3, 12, 12))
class Pools(nn.Module):
    def forward(self, x):
        a = F.adaptive_max_pool2d(x, (4, 4)) + F.adaptive_avg_pool2d(x, (4, 4))
        b, where = F.max_pool2d(x, 3, 3, return_indices=True)
        c = F.lp_pool2d(x.abs() + 0.1, 2, 3)
        return a * b + c + F.max_pool2d(x, 3, stride=3, padding=1)


@written((2, 3, 10, 10))
class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(27, 5) * 0.2)

    def forward(self, x):
        p = F.unfold(x, 3, padding=1, stride=1)
        y = (p.transpose(1, 2) @ self.weight).transpose(1, 2).reshape(2, 5, 10, 10)
        q = F.fold(p * 0.1, (10, 10), 3, padding=1)
        return torch.cat([y, q], 1)


@written((2, 3, 8, 8))
class Warp(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta = nn.Linear(3, 6)

    def forward(self, x):
        grid = F.affine_grid(self.theta(x.mean((2, 3))).view(-1, 2, 3), x.shape, align_corners=False)
        return F.grid_sample(x, grid, align_corners=False, padding_mode="border")


@written((2, 4, 10))
class WeightNorms(Net):
    def __init__(self):
        super().__init__()
        self.layers(a=parametrizations.weight_norm(nn.Conv1d(4, 6, 3, padding=1)),
                    b=parametrizations.weight_norm(nn.Linear(10, 8)),
                    up=parametrizations.weight_norm(nn.ConvTranspose1d(6, 3, 4, 2, 1)))

    def forward(self, x):
        return self.up(F.leaky_relu(self.b(self.a(x)), 0.1))


@written((2, 6))
class SpectralNorm(Net):
    def __init__(self):
        super().__init__()
        self.layers(a=parametrizations.spectral_norm(nn.Linear(6, 8)), b=nn.Linear(8, 2))

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


@written((4, 6, 5))
class Norms(Net):
    def __init__(self):
        super().__init__()
        self.layers(plain=nn.BatchNorm1d(6, affine=False),
                    layer=nn.LayerNorm([6, 5]), rms=nn.RMSNorm(5), instance=nn.InstanceNorm1d(6, affine=True),
                    local=nn.LocalResponseNorm(3))

    def forward(self, x):
        y = self.layer(self.plain(x))
        return self.rms(y) + self.instance(x) + self.local(x) + F.normalize(x, dim=1) + (
            x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 0.1)


# ---- attention ----

@written((2, 6, 12), keep=(2, 6))
class EinsumAttention(Net):
    """Attention by einsum with a mask from a keyword, ellipsis included."""

    def __init__(self):
        super().__init__()
        self.layers(qkv=nn.Linear(12, 36), out=nn.Linear(12, 12))

    def forward(self, x, keep=None):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 3, 4).unbind(2)
        s = torch.einsum("bihd,bjhd->bhij", q, k) * 4**-0.5
        s = s.masked_fill((keep < -0.5)[:, None, None, :], torch.finfo(s.dtype).min)
        y = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v).reshape(b, t, -1)
        return self.out(y) + torch.einsum("...i,...i->...", x, y)[..., None]


@written((2, 7, 12))
class CausalAttention(Net):
    def __init__(self):
        super().__init__()
        self.layers(q=nn.Linear(12, 12), kv=nn.Linear(12, 8), out=nn.Linear(12, 12))
        self.register_buffer("bias", torch.arange(7).view(1, 1, 7).sub(torch.arange(7).view(1, 7, 1)).float() * 0.1)

    def forward(self, x):
        q = self.q(x).unflatten(-1, (3, 4)).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        k, v = (z.unsqueeze(1).expand(-1, 3, -1, -1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias.unsqueeze(0))
        return self.out(y.transpose(1, 2).flatten(2))


@written((2, 6, 8), (2, 5, 8))
class Transformer(Net):
    """PyTorch's own layers: an encoder, a decoder with masks."""

    def __init__(self):
        super().__init__()
        self.layers(encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
                                                  2, enable_nested_tensor=False),
                    decoder=nn.TransformerDecoderLayer(8, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True))

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return self.decoder(y, self.encoder(x), tgt_mask=mask)


@written((2, 6, 8))
class MultiHead(Net):
    def __init__(self):
        super().__init__()
        self.layers(attention=nn.MultiheadAttention(8, 2, batch_first=True), norm=nn.LayerNorm(8))

    def forward(self, x):
        y, weights = self.attention(x, x, x, average_attn_weights=False)
        return self.norm(x + y) * weights.sum((1, 3))[..., None]


@written(whole(11, 2, 7))
class Rotary(Net):
    """A language model: rotary places, RMSNorm, SwiGLU, tied head."""

    def __init__(self):
        super().__init__()
        self.layers(embed=nn.Embedding(11, 8), qkv=nn.Linear(8, 24, bias=False), out=nn.Linear(8, 8, bias=False),
                    gate=nn.Linear(8, 32, bias=False), down=nn.Linear(16, 8, bias=False), norm=nn.RMSNorm(8, 1e-6))
        angle = torch.arange(7)[:, None] * 10000**(-torch.arange(0, 4, 2) / 4)
        self.register_buffer("turn", torch.polar(torch.ones_like(angle), angle), persistent=False)

    def rotate(self, x):
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * self.turn[:, None]).flatten(3)

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = (z.view(2, 7, 2, 4) for z in self.qkv(self.norm(x)).split(8, -1))
        q, k = self.rotate(q), self.rotate(k)
        y = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(2, 7, 8))
        a, b = self.gate(self.norm(x)).chunk(2, -1)
        return (x + self.down(F.silu(a) * b)) @ self.embed.weight.t()


# ---- recurrence ----

@written((2, 6, 4), (2, 5))
class Seq2Seq(Net):
    """An LSTM whose states go into a cell that is stepped in a loop."""

    def __init__(self):
        super().__init__()
        self.layers(encoder=nn.LSTM(4, 5, bidirectional=True, batch_first=True), merge=nn.Linear(10, 5),
                    cell=nn.LSTMCell(5, 5), out=nn.Linear(5, 5))

    def forward(self, x, start):
        _, (h, c) = self.encoder(x)
        h, c = self.merge(torch.cat([h[0], h[1]], -1)), c.mean(0)
        y, outputs = start, []
        for _ in range(3):
            h, c = self.cell(y, (h, c))
            y = torch.tanh(self.out(h))
            outputs.append(y)
        return torch.stack(outputs, dim=1)


@written((2, 5, 3))
class Cells(Net):
    def __init__(self):
        super().__init__()
        self.layers(gru=nn.GRUCell(3, 4), rnn=nn.RNNCell(4, 4, nonlinearity="relu"))

    def forward(self, x):
        h = x.new_zeros(x.size(0), 4)
        s = h
        for t in range(x.size(1)):
            h = self.gru(x[:, t], h)
            s = self.rnn(h, s)
        return h + s


@written((2, 6, 4))
class Twice(Net):
    """A GRU and a linear layer that are called twice."""

    def __init__(self):
        super().__init__()
        self.layers(gru=nn.GRU(4, 4, batch_first=True), mix=nn.Linear(4, 4))

    def forward(self, x):
        a, _ = self.gru(x)
        b, h = self.gru(self.mix(a).flip(1))
        return self.mix(b) + h.transpose(0, 1)


@written((6, 2, 4))
class Projected(Net):
    def __init__(self):
        super().__init__()
        self.layers(rnn=nn.LSTM(4, 6, proj_size=3), scale=nn.Linear(3, 1))

    def forward(self, x):
        y, (h, c) = self.rnn(x.transpose(0, 1))
        return self.scale(y).squeeze(-1).t() + c.sum((0, 2))[:, None]


@written((2, 5, 4), (2, 4, 3), (2, 4, 6))
class ProjectedBoth(Net):
    """All of it: layers, directions, no biases, first and last states."""

    def __init__(self):
        super().__init__()
        self.layers(rnn=nn.LSTM(4, 6, 2, bias=False, batch_first=True, dropout=0.0, bidirectional=True, proj_size=3))

    def forward(self, x, h, c):
        y, (h, c) = self.rnn(x, (h.transpose(0, 1), c.transpose(0, 1)))
        return y + torch.cat([h[0], h[3]], -1)[:, None] + c.mean((0, 2))[:, None, None]

