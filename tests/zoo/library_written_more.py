"""The third list, continued: elements by their numbers, writes in place, containers, outputs of several tensors, losses
and mathematics."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from library_written import Net, conv, whole, written


# ---- elements by their numbers ----

@written((2, 6, 4))
class Messages(Net):
    """A graph network: edges are a buffer, messages are added up by index_add and scatter."""

    def __init__(self):
        super().__init__()
        self.layers(message=nn.Linear(8, 5), update=nn.Linear(9, 4))
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]]))

    def forward(self, x):
        source, target = self.edges
        m = F.relu(self.message(torch.cat([x[:, source], x[:, target]], -1)))
        total = torch.zeros(x.shape[0], 6, 5, device=x.device).index_add_(1, target, m)
        count = torch.zeros(6).scatter_add(0, target, torch.ones_like(target, dtype=x.dtype))
        return self.update(torch.cat([x, total / count.clamp(min=1)[:, None]], -1))


@written((2, 6, 4))
class Chosen(Net):
    """A mixture of experts: topk, softmax of the chosen ones, one-hot masks, gather."""

    def __init__(self):
        super().__init__()
        self.layers(gate=nn.Linear(4, 3), experts=nn.ModuleList(nn.Linear(4, 4) for _ in range(3)))

    def forward(self, x):
        best, which = self.gate(x).topk(2, dim=-1)
        share = best.softmax(-1)
        weights = torch.zeros(2, 6, 3).scatter(-1, which, share)
        y = sum(weights[..., i:i + 1] * e(x) for i, e in enumerate(self.experts))
        hot = F.one_hot(which[..., 0], 3).to(x.dtype)
        return y + hot.mean(-1, keepdim=True) + torch.gather(x, 2, which).sum(-1, keepdim=True)


@written((3, 5, 4), whole(5, 3))
class LastStep(Net):
    """The element at a length of its own, of each sample; pairs of elements; flipped and sorted ones."""

    def __init__(self):
        super().__init__()
        self.layers(out=nn.Linear(4, 3))
        self.register_buffer("rows", torch.tensor([0, 2, 4, 4]))
        self.register_buffer("columns", torch.tensor([3, 1, 0, 2]))

    def forward(self, x, length):
        last = x[torch.arange(x.shape[0]), length]
        pairs = x[:, self.rows, self.columns]
        order = x.sort(dim=1, descending=True).values[:, :2].sum(1)
        return self.out(last) + pairs.sum(1, keepdim=True) + self.out(order) + x.argsort(dim=1)[:, 0, :3] * 0.1


@written((2, 5, 6))
class InPlace(nn.Module):
    """Writes into slices, by steps and by masks."""

    def forward(self, x):
        y = x.clone()
        y[:, ::2] *= 2
        y[:, 1, 1:4] = 0.5
        y[..., -1] += x[..., 0]
        z = torch.zeros_like(x)
        z[:, :, ::3] = x[:, :, 1::3]
        z[x > 1] = 1.0
        z = z.masked_fill_(x < -1, -1.0)
        y.add_(z).clamp_(-2, 2)
        return y.mul_(0.5)


@written(whole(9, 3, 4), whole(7, 3))
class Bags(Net):
    def __init__(self):
        super().__init__()
        self.layers(bag=nn.EmbeddingBag(9, 5, mode="mean"), add=nn.EmbeddingBag(9, 5, mode="sum"),
                    one=nn.Embedding(7, 5, padding_idx=0))

    def forward(self, words, kind):
        return self.bag(words) * self.one(kind) + self.add(words)


@written((2, 6, 3), (2, 5, 3))
class Distances(nn.Module):
    def forward(self, x, y):
        d = torch.cdist(x, y) + (x[:, :, None] - y[:, None]).pow(2).sum(-1)
        near = d.min(dim=-1).values + d.amax(-1) + F.cosine_similarity(x, y[:, :1], dim=-1)
        return near + F.pairwise_distance(x.flatten(0, 1), x.flip(1).flatten(0, 1) + 1).view(2, 6)


# ---- containers, arguments, outputs ----

@written((2, 4, 8))
class Containers(Net):
    """ModuleDict, ParameterList, ParameterDict, buffers, a submodule that is kept twice."""

    def __init__(self):
        super().__init__()
        self.layers(heads=nn.ModuleDict({"low": nn.Linear(8, 3), "high-end": nn.Linear(8, 3)}), shared=nn.Linear(8, 8))
        self.again = self.shared
        self.scales = nn.ParameterList(nn.Parameter(torch.randn(8)) for _ in range(2))
        self.bias = nn.ParameterDict({"a": nn.Parameter(torch.randn(3)), "b": nn.Parameter(torch.randn(1, 3))})
        self.register_buffer("mean", torch.randn(8))
        self.register_buffer("places", torch.linspace(0, 1, 4)[:, None], persistent=False)

    def forward(self, x):
        x = self.again(self.shared(x - self.mean) + self.places)
        for s in self.scales:
            x = x * s
        return self.heads["low"](x) * self.bias["a"] + self.heads["high-end"](x).sigmoid() + self.bias["b"]


@written((2, 3, 8, 8), open_batch=True)
class Several(Net):
    """A dictionary and a tuple of outputs."""

    def __init__(self):
        super().__init__()
        self.layers(stem=conv(3, 6), mask=conv(6, 1), label=nn.Linear(6, 4))

    def forward(self, x):
        h = F.gelu(self.stem(x))
        return {"mask": torch.sigmoid(self.mask(h)), "labels": (self.label(h.mean((2, 3))), h.amax((2, 3)))}


@written((2, 8), scale=(2, 8), shift=(2, 8))
class Keywords(Net):
    def __init__(self):
        super().__init__()
        self.layers(net=nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)))

    def forward(self, x, *, scale, shift=None):
        x = x * scale
        return self.net(x if shift is None else x + shift)


@written((2, 8))
class Checkpointed(Net):
    def __init__(self):
        super().__init__()
        self.layers(blocks=nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.SiLU()) for _ in range(3)))

    def forward(self, x):
        for b in self.blocks:
            x = x + checkpoint(b, x, use_reentrant=False)
        return F.dropout(x, 0.0, training=self.training)


@written((2, 8))
class WithoutAutocast(Net):
    """Its inner graph's result has another name than the node's."""

    def __init__(self):
        super().__init__()
        self.layers(up=nn.Linear(8, 8), down=nn.Linear(8, 2))

    def forward(self, x):
        y = F.relu(self.up(x))
        with torch.autocast("cpu", enabled=False):
            z = y.to(y.dtype) * y.mean(dim=-1, keepdim=True)
            z = (z / (z.sum(dim=-1, keepdim=True) + 1)).to(y.dtype)
        return self.down(z)


@written((2, 12, 8))
class MaskUnits(Net):
    """Attention within units: what lies between samples and tokens, of five dimensions and of six."""

    def __init__(self):
        super().__init__()
        self.layers(qkv=nn.Linear(8, 24), out=nn.Linear(8, 8))
        self.register_buffer("bias", torch.arange(4.0).view(1, 4).sub(torch.arange(4.0).view(4, 1)) * 0.1)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(1, (4, 3)).unflatten(-1, (3, 2, 4)).permute(3, 0, 4, 2, 1, 5)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)  # [sample, head, unit, token, 4]
        y = y + F.scaled_dot_product_attention(q, k, v[..., :1]) * k.mean(-1, keepdim=True)
        z = [u.unflatten(2, (3, 1)) for u in (q, k, v)]
        y = y + F.scaled_dot_product_attention(*z, is_causal=True).flatten(2, 3)
        return self.out(y.permute(0, 3, 2, 1, 4).flatten(3).flatten(1, 2))


@written((2, 4, 6, 6))
class Gates(Net):
    """Squeeze and excitation, GLU, Maxout, stochastic depth by hand, layer scale."""

    def __init__(self):
        super().__init__()
        self.layers(down=nn.Conv2d(4, 2, 1), up=nn.Conv2d(2, 4, 1), wide=conv(4, 8), drop=nn.Dropout2d(0.0))
        self.gamma = nn.Parameter(1e-1 * torch.ones(4, 1, 1))

    def forward(self, x):
        s = torch.sigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))
        y = F.glu(self.wide(x * s), dim=1)
        z = self.wide(y).view(2, 4, 2, 6, 6).max(dim=2)[0]
        return x + self.gamma * self.drop(y) + torch.maximum(z, y)


# ---- Fourier, complex numbers ----

@written((2, 3, 16))
class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4, 5, dtype=torch.cfloat) * 0.3)

    def forward(self, x):
        f = torch.fft.rfft(x)
        out = torch.zeros(x.shape[0], 4, f.shape[-1], dtype=f.dtype)
        out[..., :5] = torch.einsum("bix,iox->box", f[..., :5], self.w)
        y = torch.fft.irfft(out, n=x.shape[-1])
        return y + f.abs().mean(-1).mean(1)[:, None, None] + torch.angle(f[..., 1:2].sum(1, keepdim=True))


@written((2, 64))
class Spectrogram(Net):
    """stft with a window, logarithms, convolution, and back."""

    def __init__(self):
        super().__init__()
        self.layers(mix=nn.Conv1d(9, 9, 3, padding=1))
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x):
        f = torch.stft(x, 16, hop_length=4, window=self.window, center=True, return_complex=True)
        return self.mix(torch.log1p(f.abs()))


@written((2, 2, 8, 8))
class Derivatives(nn.Module):
    """Physics: derivatives by rolled differences and by Fourier, cumulative sums, clamped ratios."""

    def forward(self, u):
        dx = (u.roll(-1, -1) - u.roll(1, -1)) / 2
        k = 2 * torch.pi * torch.fft.fftfreq(8)
        dy = torch.fft.ifft(1j * k[:, None] * torch.fft.fft(u, dim=-2), dim=-2).real
        total = torch.cumsum(u, dim=-1) + torch.trapezoid(u, dim=-2)[..., None, :]
        vort = dx[:, 1] - dy[:, 0]
        return (vort.unsqueeze(1) / u.square().sum(1, keepdim=True).sqrt().clamp_min(0.1)) + total * 0.1


# ---- mathematics ----

@written((2, 5, 6))
class Functions(nn.Module):
    def forward(self, x):
        a = torch.atan2(x, x.flip(-1) + 3) + torch.asin(x.tanh() * 0.9) + torch.atan(x) + torch.acos(x.tanh() * 0.5)
        b = torch.exp2(x * 0.1) + torch.log10(x.abs() + 1) + torch.special.expit(x) + torch.logit(x.sigmoid())
        c = torch.fmod(x, 0.7) + torch.remainder(x, 0.7) + torch.sinc(x) + torch.hypot(x, x + 1)
        d = F.tanhshrink(x) + F.softsign(x) + F.threshold(x, 0.1, 0.0) + F.logsigmoid(x)
        return a + b * c + d + torch.nan_to_num(x, nan=0.0, posinf=1.0, neginf=0.0) * 0.1


@written((4, 5, 6))
class Statistics(nn.Module):
    mixes = True  # samples: a prediction has one at a time

    def forward(self, x):
        m, v = x.mean(dim=0), x.var(dim=0)
        s, n = torch.std_mean(x, dim=-1, keepdim=True)
        y = (x - m) / (v + 0.1).sqrt() + (x - n) / (s + 0.1)
        y = y + x.median(dim=1, keepdim=True).values + torch.logsumexp(x, 1, keepdim=True) + x.norm(
            p=3, dim=1, keepdim=True)
        return y + x.norm() + torch.quantile(x, 0.3, dim=1, keepdim=True) + x.amin((0, 1)) + x.prod(1, keepdim=True)


@written((3, 4), (3, 5))
class Bilinear(Net):
    def __init__(self):
        super().__init__()
        self.layers(pair=nn.Bilinear(4, 5, 6))
        self.core = nn.Parameter(torch.randn(4, 5, 6))

    def forward(self, x, y):
        z = self.pair(x, y) + torch.einsum("bi,bj,ijk->bk", x, y, self.core)
        q = torch.outer(self.core.sum((0, 1)), self.core.sum((1, 2))) @ self.core.sum(1)
        u = torch.linalg.vector_norm(z, dim=-1, keepdim=True) + z
        return torch.baddbmm(u[:, None], z[:, None], q.expand(3, -1, -1)).squeeze(1) + torch.tril(q)[0]


@written((2, 6, 8))
class Masks(nn.Module):
    """Masks by triu, eye, arange and comparisons; where with numbers and tensors."""

    def forward(self, x):
        t = x.shape[1]
        far = (torch.arange(t)[None] - torch.arange(t)[:, None]).abs() > 2
        s = x @ x.mT / x.shape[-1]**0.5
        s = s.masked_fill(far | torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
        s = torch.where(torch.eye(t, dtype=torch.bool), s * 2, s).softmax(-1)
        decay = torch.exp(-torch.arange(t, dtype=x.dtype))[:, None]
        y = torch.where(x > 0, x, x.new_tensor(0.1)) * decay + s @ x
        return y + torch.diagonal(s, dim1=-2, dim2=-1)[..., None] + torch.diag_embed(x[..., 0]).sum(-1, keepdim=True)


@written((2, 4, 6), (2, 4, 6))
class Stacks(nn.Module):
    """Cut, joined and repeated along axes in the ways that there are."""

    def forward(self, x, y):
        a, b = torch.hstack([x, y]).tensor_split(2, dim=1)
        c = torch.concatenate([a.ravel().reshape(2, 4, 6), b], axis=-1).moveaxis(-1, 1).swapdims(1, 2)
        d = torch.stack(torch.meshgrid(torch.linspace(0, 1, 6), torch.arange(5.0), indexing="ij"), -1).sum((0, 1, 2))
        e = x.repeat(1, 1, 2) + y.repeat_interleave(2, dim=2) + x.tile(2).narrow(-1, 0, 12)
        f = torch.cat([F.pad(x, (1, -1)), F.pad(y, (2, 1), value=0.5)[..., :6]], -1)
        return torch.dstack([c, e]).mean(-1, keepdim=True) + f * d + torch.vstack(
            [torch.ones(1, 12), torch.zeros(3, 12)])


@written((2, 3, 8, 8), (2, 3, 8, 8))
class WithLoss(Net):
    """A network whose forward gives a loss for each sample."""

    def __init__(self):
        super().__init__()
        self.layers(net=conv(3, 3))

    def forward(self, x, y):
        z = self.net(x)
        a = F.mse_loss(z, y, reduction="none").mean((1, 2, 3)) + F.smooth_l1_loss(z, y, reduction="none").sum((1, 2, 3))
        b = F.binary_cross_entropy_with_logits(z, y.sigmoid(), reduction="none").mean((1, 2, 3))
        c = F.cross_entropy(z, y.argmax(1), reduction="none").mean((1, 2)) + F.huber_loss(
            z, y, reduction="none").mean((1, 2, 3)) + F.kl_div(z.log_softmax(1), y.softmax(1), reduction="none").sum(
                (1, 2, 3))
        return a + b + c

