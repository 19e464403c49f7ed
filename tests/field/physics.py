"""Fields, meshes, molecules and equations."""
import torch
import torch.nn.functional as F
from torch import nn

from base import Field


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
