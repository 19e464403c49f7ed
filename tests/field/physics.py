"""Fields, meshes, molecules and equations."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from base import Field, Mlp, Transformer, folder


class Grids(Field):
    """From fields of `channels` on a grid to others of `targets`."""
    def sides(self):
        return self.size if isinstance(self.size, (list, tuple)) else (self.size, self.size)

    def batch(self, n):
        return {"x": torch.randn(n, self.channels, *self.sides()), "t": torch.randn(n, self.targets, *self.sides())}


class Spectral(nn.Module):
    """A Fourier layer as its authors wrote it: the low modes of either sign of H."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        for name in ("weights1", "weights2"):
            made = torch.randn(width, width, modes, modes, dtype=torch.complex64) / width
            setattr(self, name, nn.Parameter(made))

    def forward(self, x):
        m, spectrum = self.modes, torch.fft.rfft2(x)
        made = torch.zeros_like(spectrum)
        made[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.weights1)
        made[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.weights2)
        return torch.fft.irfft2(made, s=x.shape[-2:])


class FNO(Grids):
    channels = targets = 1

    def __init__(self, width=32, modes=12, layers=4, hidden=128, size=64):
        super().__init__()
        self.layers, self.size = layers, size
        self.fc0, self.fc1, self.fc2 = (nn.Conv2d(i, o, 1) for i, o in ((3, width), (width, hidden), (hidden, 1)))
        for i in range(layers):
            setattr(self, f"conv{i}", Spectral(width, modes))
            setattr(self, f"w{i}", nn.Conv2d(width, width, 1))

    def forward(self, x):
        rows, columns = (torch.linspace(0, 1, n, dtype=x.dtype) for n in x.shape[2:])
        h = self.fc0(torch.cat([x, rows[:, None].expand_as(x), columns.expand_as(x)], 1))
        for i in range(self.layers):
            h = getattr(self, f"conv{i}")(h) + getattr(self, f"w{i}")(h)
            h = F.gelu(h) if i < self.layers - 1 else h
        return self.fc2(F.gelu(self.fc1(h)))


class Scale(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c, 1, 1))

    def forward(self, x):
        return F.normalize(x, dim=1, eps=1e-6) * self.weight


class NextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c, 1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.gamma = nn.Parameter(1e-6 * torch.ones(c))

    def forward(self, x):
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))).permute(0, 3, 1, 2)


class NextStage(nn.Module):
    def __init__(self, i, o, blocks, turn=None, skip=False):
        super().__init__()
        if skip:
            self.skip_proj = nn.Conv2d(2 * i, i, 1)
        self.blocks = nn.Sequential(*(NextBlock(i) for _ in range(blocks)))
        if turn:
            self.resample = folder(block=nn.Sequential(Scale(i), turn(i, o, 2, 2)))

    def forward(self, x):
        x = self.blocks(self.skip_proj(x) if hasattr(self, "skip_proj") else x)
        return self.resample.block(x) if hasattr(self, "resample") else x


class CNextUNet(Grids):
    def __init__(self, size=128, channels=4, targets=4, width=42, stages=4, blocks=2, neck=1):
        super().__init__()
        self.size, self.channels, self.targets = size, channels, targets
        c = [width * 2**i for i in range(stages + 1)]
        self.in_proj, self.out_proj = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, targets, 3, padding=1)
        self.encoder = nn.ModuleList(NextStage(c[i], c[i + 1], blocks, nn.Conv2d) for i in range(stages))
        self.neck = NextStage(c[-1], c[-1], neck)
        self.decoder = nn.ModuleList(NextStage(c[i], c[i - 1], blocks, nn.ConvTranspose2d, i < stages)
                                     for i in range(stages, 0, -1))

    def forward(self, x):
        h, skips = self.in_proj(x), []
        for stage in self.encoder:
            skips.append(h)
            h = stage(h)
        h = self.neck(h)
        for i, stage in enumerate(self.decoder):
            h = stage(torch.cat([h, skips[-i]], 1) if i else h)
        return self.out_proj(h)


class Filter(nn.Module):
    def __init__(self, width, groups):
        super().__init__()
        self.groups, b = groups, width // groups
        for name, shape in (("w1", (2, groups, b, b)), ("b1", (2, groups, b)), ("w2", (2, groups, b, b)),
                            ("b2", (2, groups, b))):
            setattr(self, name, nn.Parameter(0.02 * torch.randn(shape)))

    def product(self, real, imag, w, b):
        by = lambda x, k: torch.einsum("...bi,bio->...bo", x, w[k])
        return by(real, 0) - by(imag, 1) + b[0], by(imag, 0) + by(real, 1) + b[1]

    def forward(self, x):
        f = torch.fft.rfft2(x, dim=(1, 2), norm="ortho").unflatten(-1, (self.groups, -1))
        real, imag = self.product(f.real, f.imag, self.w1, self.b1)
        h = torch.stack(self.product(real.relu(), imag.relu(), self.w2, self.b2), -1)
        h = torch.view_as_complex(F.softshrink(h, 0.01)).flatten(3)
        return x + torch.fft.irfft2(h, s=x.shape[1:3], dim=(1, 2), norm="ortho")


class AFNO(Grids):
    def __init__(self, size=(720, 1440), channels=20, patch=8, width=768, depth=12, num_blocks=8):
        super().__init__()
        self.size, self.channels, self.targets, self.patch = size, channels, channels, patch
        self.places = size[0] // patch, size[1] // patch
        self.patch_embed = folder(proj=nn.Conv2d(channels, width, patch, patch))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, self.places[0] * self.places[1], width))
        self.blocks = nn.ModuleList(folder(norm1=nn.LayerNorm(width, 1e-6), filter=Filter(width, num_blocks),
                                           norm2=nn.LayerNorm(width, 1e-6), mlp=Mlp(width, 4 * width))
                                    for _ in range(depth))
        self.head = nn.Linear(width, channels * patch**2, bias=False)

    def forward(self, x):
        h = self.patch_embed.proj(x).flatten(2).transpose(1, 2) + self.pos_embed
        h = h.unflatten(1, self.places)
        for b in self.blocks:
            h = h + b.filter(b.norm1(h))
            h = h + b.mlp(b.norm2(h))
        y = self.head(h).unflatten(-1, (self.patch, self.patch, self.channels))
        return y.permute(0, 5, 1, 3, 2, 4).reshape(x.shape)

    def loss(self, x, t):
        return ((self(x) - t).flatten(1).norm(dim=1) / t.flatten(1).norm(dim=1)).mean()


def legendre(degrees, orders, x):
    """Associated Legendre functions [L, M, H] as derivatives of Legendre's polynomials, orthonormal on the sphere, with
    the phase (-1)^M."""
    from numpy.polynomial.legendre import legder, legval
    made = torch.zeros(degrees, orders, len(x), dtype=torch.float64)
    for l in range(degrees):
        for m in range(min(l + 1, orders)):
            size = math.log((2 * l + 1) / (4 * math.pi)) + math.lgamma(l - m + 1) - math.lgamma(l + m + 1)
            slope = torch.from_numpy(legval(x.numpy(), legder([0.0] * l + [1.0], m)))
            made[l, m] = (-1)**m * math.exp(0.5 * size) * (1 - x**2).clamp(min=0)**(0.5 * m) * slope
    return made


def clenshaw_curtis(n):
    """Weights of n places from pole to pole: the integrals of the polynomials that are 1 at one place and 0 at the
    others, by their moments."""
    x = torch.cos(torch.linspace(0, math.pi, n, dtype=torch.float64))
    cosines = torch.cos(torch.arange(n, dtype=torch.float64)[:, None] * torch.acos(x.clamp(-1, 1)))
    moments = torch.tensor([0.0 if k % 2 else 2 / (1 - k * k) for k in range(n)], dtype=torch.float64)
    return torch.linalg.solve(cosines, moments)


class SphereFilter(nn.Module):
    def __init__(self, width, degrees):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, degrees, dtype=torch.complex64) / width)
        self.bias = nn.Parameter(torch.randn(1, width, 1, 1) / width**2)

    def forward(self, x, analysis, synthesis):
        f = torch.fft.rfft(x, norm="forward")
        f = torch.einsum("nchm,lmh->nclm", f, analysis.to(f))
        f = torch.einsum("nclm,col->nolm", f, self.weight)
        f = torch.einsum("nclm,lmh->nchm", f, synthesis.to(f))
        return torch.fft.irfft(f, x.shape[-1], norm="forward") + self.bias


class SFNO(Grids):
    def __init__(self, size=(64, 128), channels=3, width=64, layers=4):
        super().__init__()
        self.size, self.channels, self.targets = size, channels, channels
        self.shares = clenshaw_curtis(size[0])
        angles = torch.linspace(0, math.pi, size[0], dtype=torch.float64)
        self.synthesis = legendre(size[0], size[1] // 2 + 1, torch.cos(angles))
        self.analysis = 2 * math.pi * self.shares * self.synthesis
        conv = lambda i, o, bias=True: nn.Conv2d(i, o, 1, bias=bias)
        norm = lambda: nn.InstanceNorm2d(width, 1e-6, affine=True)
        self.encoder = nn.Sequential(conv(channels, width), nn.GELU(), conv(width, width, False))
        self.pos_embed = nn.Parameter(torch.zeros(1, width, *size))
        self.blocks = nn.ModuleList(
            folder(norm0=norm(), filter=folder(filter=SphereFilter(width, size[0])), inner_skip=conv(width, width),
                   norm1=norm(), mlp=folder(fwd=nn.Sequential(conv(width, 2 * width), nn.GELU(),
                                                              conv(2 * width, width)))) for _ in range(layers))
        self.decoder = nn.Sequential(conv(width + channels, width), nn.GELU(), conv(width, channels, False))

    def forward(self, x):
        h = self.encoder(x) + self.pos_embed
        for b in self.blocks:
            h = b.norm0(h)
            y = F.gelu(b.filter.filter(h, self.analysis, self.synthesis) + b.inner_skip(h))
            h = h + b.mlp.fwd(b.norm1(y))
        return self.decoder(torch.cat([h, x], 1))

    def loss(self, x, t):
        w = self.shares.to(x)[:, None]
        y = self(x)
        return ((w * (y - t)**2).sum((1, 2, 3)) / (w * t**2).sum((1, 2, 3))).mean()


class ClimaX(Grids):
    """Without dropout."""

    def __init__(self, size=(32, 64), variables=48, patch=2, width=1024, depth=8, decoder_depth=2, heads=16):
        super().__init__()
        self.size, self.channels, self.targets, self.patch = size, variables, variables, patch
        self.places, few = (size[0] // patch, size[1] // patch), lambda *shape: nn.Parameter(0.02 * torch.randn(shape))
        self.token_embeds = folder(proj_weights=few(variables, width, 1, patch, patch),
                                   proj_biases=few(variables, width))
        self.var_embed, self.var_query = few(1, variables, width), few(1, 1, width)
        self.var_agg = nn.MultiheadAttention(width, heads, batch_first=True)
        self.pos_embed = few(1, self.places[0] * self.places[1], width)
        self.lead_time_embed = nn.Linear(1, width)
        self.blocks = nn.Sequential(*(Transformer(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        layers = [layer for _ in range(decoder_depth) for layer in (nn.Linear(width, width), nn.GELU())]
        self.head = nn.Sequential(*layers, nn.Linear(width, variables * patch**2))

    def batch(self, n):
        return {**super().batch(n), "lead": torch.rand(n)}

    def forward(self, x, lead):
        n, v = x.shape[:2]
        w, b = self.token_embeds.proj_weights.flatten(0, 1), self.token_embeds.proj_biases.flatten()
        h = F.conv2d(x, w, b, self.patch, groups=v).view(n, v, w.shape[0] // v, -1).permute(0, 3, 1, 2)
        h = (h + self.var_embed[:, None]).flatten(0, 1)
        query = self.var_query.expand(h.shape[0], -1, -1)
        h = self.var_agg(query, h, h, need_weights=False)[0][:, 0].unflatten(0, (n, -1))
        h = h + self.pos_embed + self.lead_time_embed(lead[:, None])[:, None]
        y = self.head(self.norm(self.blocks(h))).view(n, *self.places, self.patch, self.patch, v)
        return y.permute(0, 5, 1, 3, 2, 4).reshape(x.shape)

    def loss(self, x, lead, t):
        w = torch.cos(torch.linspace(90, -90, self.size[0], dtype=x.dtype) * math.pi / 180)[:, None]
        return (w / w.mean() * (self(x, lead) - t)**2).mean()


class PDEBenchUNet(Grids):
    def __init__(self, size=128, channels=40, targets=4, width=32):
        super().__init__()
        self.size, self.channels, self.targets = size, channels, targets
        widths = [channels] + [width * 2**i for i in range(5)]
        for i in range(1, 6):
            name = ("bottleneck", "bottleneck") if i == 5 else (f"encoder{i}", f"enc{i}")
            setattr(self, name[0], self.block(widths[i - 1], widths[i], name[1]))
        for i in range(4, 0, -1):
            setattr(self, f"upconv{i}", nn.ConvTranspose2d(widths[i + 1], widths[i], 2, 2))
            setattr(self, f"decoder{i}", self.block(2 * widths[i], widths[i], f"dec{i}"))
        self.conv = nn.Conv2d(width, targets, 1)

    def block(self, i, o, name):
        made = nn.Sequential()
        for k, c in ((1, i), (2, o)):
            made.add_module(f"{name}conv{k}", nn.Conv2d(c, o, 3, padding=1, bias=False))
            made.add_module(f"{name}norm{k}", nn.BatchNorm2d(o))
            made.add_module(f"{name}tanh{k}", nn.Tanh())
        return made

    def forward(self, x):
        skips = []
        for i in range(1, 5):
            skips.append(getattr(self, f"encoder{i}")(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.bottleneck(x)
        for i in range(4, 0, -1):
            x = torch.cat([getattr(self, f"upconv{i}")(x), skips[i - 1]], 1)
            x = getattr(self, f"decoder{i}")(x)
        return self.conv(x)


class ConvLSTM(Field):
    def __init__(self, frames=10, size=64, channels=1, hidden=(64, 64), kernel=3):
        super().__init__()
        self.shape, self.hidden = (frames, channels, size, size), hidden
        self.cell_list = nn.ModuleList(folder(conv=nn.Conv2d(a + b, 4 * b, kernel, padding=kernel // 2))
                                       for a, b in zip([channels, *hidden], hidden))
        self.head = nn.Conv2d(hidden[-1], channels, 1)

    def batch(self, n):
        return {"x": torch.randn(n, *self.shape), "t": torch.randn(n, *self.shape[1:])}

    def forward(self, x):
        steps = list(x.unbind(1))
        for cell, c in zip(self.cell_list, self.hidden):
            h = s = x.new_zeros(len(x), c, *x.shape[3:])
            for i, frame in enumerate(steps):
                a, f, o, g = cell.conv(torch.cat([frame, h], 1)).chunk(4, 1)
                s = f.sigmoid() * s + a.sigmoid() * g.tanh()
                h = steps[i] = o.sigmoid() * s.tanh()
        return self.head(h)
