"""A fifth list: hand-written networks of the sciences, and families of the libraries of which no other list has a
model. Importing it adds them to LIBRARIES.
"""
import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

import library_other  # noqa: F401 (the other lists)
from library_models import LIBRARIES, SMALL, First, _hf, _words, add_timm, model
from library_written import Net, conv, whole, written

KNOWN = {library: set(models) for library, models in LIBRARIES.items()}
science = functools.partial(written, library="science")


# ---- graphs and points ----

@science((7, 5))
class GraphAttention(Net):
    """Attention over the edges of one graph: a softmax by segments, with scatter_reduce for the largest score."""

    mixes = True

    def __init__(self):
        super().__init__()
        self.layers(values=nn.Linear(5, 6), score=nn.Linear(12, 1), out=nn.Linear(6, 3))
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 2], [1, 2, 3, 4, 5, 6, 0, 3, 5]]))

    def forward(self, x):
        source, target = self.edges
        v = self.values(x)
        s = F.leaky_relu(self.score(torch.cat([v[source], v[target]], -1)).squeeze(-1), 0.2)
        top = torch.full((7,), -1e9, dtype=x.dtype).scatter_reduce(0, target, s, "amax")
        e = (s - top[target]).exp()
        total = torch.zeros(7, dtype=x.dtype).index_add(0, target, e)
        m = (e / total[target])[:, None] * v[source]
        mean = torch.zeros_like(v).scatter_reduce(0, target[:, None].expand(-1, 6), m, "mean", include_self=False)
        return self.out(F.elu(torch.zeros_like(v).index_add(0, target, m) + mean))


@science((2, 12, 3))
class PointNet(Net):
    """Features of points next to those of the whole cloud, with a transform that is predicted."""

    def __init__(self):
        super().__init__()
        self.layers(a=nn.Conv1d(3, 8, 1), b=nn.Conv1d(8, 16, 1), norm=nn.BatchNorm1d(8), turn=nn.Linear(16, 9),
                    out=nn.Conv1d(24, 4, 1))

    def forward(self, x):
        x = x.transpose(1, 2)
        t = self.turn(self.b(F.relu(self.a(x))).max(2)[0]).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype)
        h = F.relu(self.norm(self.a(torch.bmm(t, x))))
        whole_ = self.b(h).max(dim=2, keepdim=True).values.expand(-1, -1, x.shape[2])
        return self.out(torch.cat([h, whole_], 1))


@science((2, 10, 3))
class EdgeConv(Net):
    """Dynamic graphs: the nearest points by cdist and topk, gathered."""

    def __init__(self):
        super().__init__()
        self.layers(edge=nn.Linear(6, 8), out=nn.Linear(8, 2))

    def forward(self, x):
        near = torch.cdist(x, x).topk(4, largest=False)[1]
        n, p, k = near.shape
        y = torch.gather(x.unsqueeze(1).expand(n, p, p, 3), 2, near.unsqueeze(-1).expand(n, p, k, 3))
        x = x.unsqueeze(2).expand_as(y)
        return self.out(F.gelu(self.edge(torch.cat([x, y - x], -1))).amax(2))


@science((2, 6, 3))
class Equivariant(Net):
    """An E(n) network: distances of all pairs, and forces along them."""

    def __init__(self):
        super().__init__()
        self.layers(edge=nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 8)), weigh=nn.Linear(8, 1, bias=False))
        self.register_buffer("self_", torch.eye(6, dtype=torch.bool))

    def forward(self, x):
        for _ in range(2):
            d = x[:, :, None] - x[:, None]
            m = self.edge(d.square().sum(-1, keepdim=True).clamp_min(1e-6).sqrt())
            w = torch.tanh(self.weigh(m)).masked_fill(self.self_[None, :, :, None], 0.0)
            x = x + (w * d).sum(2) / 5
        return x


# ---- physics ----

@science((2, 4))
class NeuralOde(Net):
    """Fixed steps of Runge and Kutta of fourth order."""

    def __init__(self):
        super().__init__()
        self.layers(f=nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 4)))

    def rate(self, t, x):
        return self.f(torch.cat([x, torch.full_like(x[:, :1], t)], 1))

    def forward(self, x):
        h = 0.25
        for i in range(4):
            t = i * h
            a = self.rate(t, x)
            b = self.rate(t + h / 2, x + h / 2 * a)
            c = self.rate(t + h / 2, x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + self.rate(t + h, x + h * c))
        return x


@science((5, 2))
class PhysicsMlp(Net):
    """Fourier features, a network of sines, and the residual's scale as asinh."""

    def __init__(self):
        super().__init__()
        self.layers(a=nn.Linear(12, 16), b=nn.Linear(16, 16), c=nn.Linear(16, 1))
        self.register_buffer("frequency", torch.randn(2, 6))
        self.amplitude = nn.Parameter(torch.ones(16))

    def forward(self, x):
        p = 2 * math.pi * x @ self.frequency
        h = torch.sin(self.a(torch.cat([p.sin(), p.cos()], -1)) * self.amplitude)
        return torch.asinh(self.c(h + torch.sin(self.b(h)))) * torch.logaddexp(x[:, :1], x[:, 1:])


@science((2, 2, 16, 16))
class Diffusion(Net):
    """Finite differences by roll and by a fixed kernel, with a learned source."""

    def __init__(self):
        super().__init__()
        self.layers(source=nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"))
        self.register_buffer("kernel", torch.tensor([[0., 1, 0], [1, -4, 1], [0, 1, 0]]).expand(2, 1, 3, 3).clone())
        self.rate = nn.Parameter(torch.tensor([0.1, 0.05]))

    def forward(self, u):
        for _ in range(3):
            lap = F.conv2d(F.pad(u, (1, 1, 1, 1), mode="circular"), self.kernel, groups=2)
            flow = (torch.roll(u, 1, 2) - torch.roll(u, -1, 2)) * u[:, [1, 0]]
            u = u + self.rate.abs()[:, None, None] * lap - 0.05 * flow + 0.1 * torch.tanh(self.source(u))
        return u


@science((2, 1, 8, 8, 8))
class Lattice(Net):
    """Gauge-like products: complex exponentials of angles, and their sums around plaquettes."""

    def __init__(self):
        super().__init__()
        self.layers(a=nn.Conv3d(1, 3, 3, padding=1, padding_mode="circular"), out=nn.Conv3d(2, 1, 1))

    def forward(self, x):
        angle = self.a(x)
        u = torch.polar(torch.ones_like(angle), angle)
        p = u[:, 0] * torch.roll(u[:, 1], -1, 1) * torch.roll(u[:, 0], -1, 2).conj() * u[:, 1].conj()
        return self.out(torch.stack([p.real, p.imag], 1)) + u[:, 2:].angle()


# ---- time ----

@science((2, 4, 2, 10, 10))
class ConvGru(Net):
    """A ConvGRU over four frames."""

    def __init__(self):
        super().__init__()
        self.layers(gates=nn.Conv2d(8, 12, 3, padding=1), new=nn.Conv2d(8, 6, 3, padding=1), out=nn.Conv2d(6, 1, 1))

    def forward(self, x):
        h = x.new_zeros(x.shape[0], 6, 10, 10)
        for t in range(x.shape[1]):
            reset, update = self.gates(torch.cat([x[:, t], h], 1)).sigmoid().chunk(2, 1)
            h = (1 - update) * h + update * torch.tanh(self.new(torch.cat([x[:, t], reset * h], 1)))
        return self.out(h)


@science((2, 1, 40))
class WaveNet(Net):
    """Gated convolutions of growing dilation, with residuals and skips."""

    def __init__(self):
        super().__init__()
        self.layers(first=nn.Conv1d(1, 8, 1), gated=nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2**i) for i in range(4)),
                    skips=nn.ModuleList(nn.Conv1d(8, 12, 1) for _ in range(4)),
                    rests=nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(4)), out=nn.Conv1d(12, 5, 1))

    def forward(self, x):
        h, total = self.first(x), 0
        for gated, skip, rest in zip(self.gated, self.skips, self.rests):
            a, b = gated(F.pad(h, (gated.dilation[0], 0))).chunk(2, 1)
            z = torch.tanh(a) * torch.sigmoid(b)
            total = total + skip(z)
            h = h + rest(z)
        return self.out(F.relu(total))


class _Chomp(nn.Module):
    def __init__(self, inside, outside, dilation):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(inside, outside, 3, padding=2 * dilation,
                                                                    dilation=dilation))
        self.cut = 2 * dilation

    def forward(self, x):
        return F.relu(self.conv(x)[..., :-self.cut].contiguous())


@science((2, 3, 20))
class Tcn(Net):
    """A temporal convolutional network with weight norm."""

    def __init__(self):
        super().__init__()
        sizes = [3, 8, 8]
        self.layers(blocks=nn.ModuleList(nn.Sequential(_Chomp(a, b, 2**i), _Chomp(b, b, 2**i))
                                         for i, (a, b) in enumerate(zip(sizes, sizes[1:]))),
                    shortcut=nn.Conv1d(3, 8, 1), out=nn.Linear(8, 2))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = F.relu(block(x) + (self.shortcut(x) if i == 0 else x))
        return self.out(x[:, :, -1])


@science((2, 9, 4), whole(9, 2, 3))
class Translator(Net):
    """An encoder's last states begin the decoder, which is called for two sequences."""

    def __init__(self):
        super().__init__()
        self.layers(encoder=nn.GRU(4, 6, num_layers=2, batch_first=True), decoder=nn.LSTM(4, 6, batch_first=True),
                    words=nn.Embedding(9, 4), out=nn.Linear(6, 9))

    def forward(self, x, tokens):
        y, h = self.encoder(x)
        state = h[-1:].contiguous(), torch.tanh(h[:1]).contiguous()
        a, state = self.decoder(self.words(tokens), state)
        b, _ = self.decoder(self.words(tokens.flip(1)), state)
        return self.out(a + b) + self.out(y).mean(1, keepdim=True)


# ---- images and latent arrays ----

@science((2, 20, 6))
class Perceiver(Net):
    """A latent array attends to the input, then to itself, with shared weights."""

    def __init__(self):
        super().__init__()
        self.latent = nn.Parameter(torch.randn(4, 8))
        self.layers(cross=nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True),
                    block=nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True),
                    out=nn.Linear(8, 3))

    def forward(self, x):
        z = self.latent.expand(x.shape[0], -1, -1)
        for _ in range(2):
            z = z + self.cross(z, x, x, need_weights=False)[0]
            z = self.block(z)
        return self.out(z.mean(1))


@science((1, 1, 16, 16, 16))
class NestedUnet3d(Net):
    """U-Net++ in three dimensions."""

    def __init__(self):
        super().__init__()
        def block(a, b):
            return nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU())
        self.layers(x00=block(1, 4), x10=block(4, 8), x20=block(8, 16), x01=block(12, 4), x11=block(24, 8),
                    x02=block(16, 4), out=nn.Conv3d(4, 2, 1))

    def forward(self, x):
        def up(t):
            return F.interpolate(t, scale_factor=2, mode="trilinear", align_corners=True)
        a = self.x00(x)
        b = self.x10(F.max_pool3d(a, 2))
        c = self.x20(F.max_pool3d(b, 2))
        a1 = self.x01(torch.cat([a, up(b)], 1))
        b1 = self.x11(torch.cat([b, up(c)], 1))
        return self.out(self.x02(torch.cat([a, a1, up(b1)], 1)))


@science((2, 1, 12, 12))
class Capsules(Net):
    """Capsules with routing by agreement."""

    def __init__(self):
        super().__init__()
        self.layers(first=nn.Conv2d(1, 8, 5, stride=2))
        self.weight = nn.Parameter(torch.randn(1, 32, 3, 6, 4) * 0.3)

    def squash(self, s):
        n = (s**2).sum(-1, keepdim=True)
        return n / (1 + n) * s / (n + 1e-8).sqrt()

    def forward(self, x):
        u = self.squash(F.relu(self.first(x)).view(x.shape[0], 32, 4))
        u = (self.weight @ u[:, :, None, :, None]).squeeze(-1)
        b = torch.zeros(u.shape[0], 32, 3, 1, dtype=u.dtype)
        for i in range(3):
            v = self.squash((b.softmax(2) * u).sum(1))
            if i < 2:
                b = b + (u * v.unsqueeze(1)).sum(-1, keepdim=True)
        return v.norm(dim=-1)


@science((2, 3, 16, 16))
class Detector(Net):
    """A head with anchors: centres from meshgrid, decoded boxes, scores by focal bias, in one tensor."""

    def __init__(self):
        super().__init__()
        self.layers(body=nn.Sequential(conv(3, 8, 2), conv(8, 8, 2)), score=nn.Conv2d(8, 6, 3, padding=1),
                    box=nn.Conv2d(8, 12, 3, padding=1))
        self.register_buffer("sizes", torch.tensor([2.0, 4.0, 8.0]))

    def forward(self, x):
        f = self.body(x)
        n, _, h, w = f.shape
        rows, columns = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        centre = torch.stack([columns, rows], -1).view(h, w, 1, 2) * 4
        box = self.box(f).view(n, 3, 4, h, w).permute(0, 3, 4, 1, 2)
        middle = centre + box[..., :2].sigmoid() * self.sizes[:, None]
        extent = box[..., 2:].clamp(max=4).exp() * self.sizes[:, None]
        corners = torch.cat([middle - extent / 2, middle + extent / 2], -1).clamp(0, 16)
        score = self.score(f).view(n, 3, 2, h, w).permute(0, 3, 4, 1, 2)
        return torch.cat([corners, score.sigmoid()], -1).flatten(1, 3)


@science((2, 3, 24, 24))
class Keypoints(Net):
    """Soft-argmax of heat maps, and features sampled at the points."""

    def __init__(self):
        super().__init__()
        self.layers(heat=conv(3, 5, stride=2), features=conv(3, 6, stride=2), out=nn.Linear(8, 2))

    def forward(self, x):
        p = self.heat(x).flatten(2).softmax(-1).view(x.shape[0], 5, 12, 12)
        line = torch.linspace(-1, 1, 12, dtype=x.dtype)
        points = torch.stack([(p.sum(2) * line).sum(-1), (p.sum(3) * line).sum(-1)], -1)
        f = F.grid_sample(self.features(x), points[:, :, None], align_corners=True)
        return self.out(torch.cat([f.squeeze(-1).transpose(1, 2), points], -1))


# ---- libraries ----

for _name in ("starnet_s1", "swiftformer_xs", "shvit_s1"):
    add_timm(_name, 64, {})
_hf("Data2VecAudio", [lambda: torch.randn(2, 800)], attention="eager", conv_dim=(8, 8), conv_kernel=(5, 3),
    conv_stride=(4, 4), num_conv_pos_embeddings=2, conv_pos_kernel_size=3, num_conv_pos_embedding_groups=2,
    mask_time_prob=0.0, hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, feat_proj_dropout=0.0,
    layerdrop=0.0, **SMALL)
_hf("Olmo2", [_words], num_key_value_heads=1, **{"vocab_size": 40, **SMALL})


@model("torchvision", "ssdlite_head")
def _ssdlite():
    from torchvision.models.detection.ssdlite import SSDLiteHead
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = SSDLiteHead([8, 12], [3, 2], 4, nn.BatchNorm2d)

        def forward(self, a, b):
            y = self.head([a, b])
            return torch.cat([y["bbox_regression"], y["cls_logits"]], -1)
    return Head(), (torch.randn(2, 8, 8, 8), torch.randn(2, 12, 4, 4))


@model("monai", "HighResNet2")
def _highres():
    import monai.networks.nets as nets
    return First(nets.HighResNet(spatial_dims=2, in_channels=1, out_channels=2)), (torch.randn(1, 1, 16, 16),)


SCIENCE = {library: [n for n in models if n not in KNOWN.get(library, ())] for library, models in LIBRARIES.items()}
