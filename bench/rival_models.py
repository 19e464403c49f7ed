"""The networks of models/*.dl in PyTorch, written as one writes them for speed there: activations in place, attention
by scaled_dot_product_attention, weight decay in the optimiser. For bench/rival.py alone."""
import torch
import torch.nn.functional as F
from torch import nn

WIDTHS = [64, 128, 256, 512, 512, 512]


class UNet(nn.Module):
    """models/unet.dl: the 3-D U-Net of `scales` scales."""

    def __init__(self, scales):
        super().__init__()
        channels = [4] + WIDTHS[:scales]
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv3d(a, b, 4, 2, 1), nn.LeakyReLU(0.01, inplace=True))
            for a, b in zip(channels, channels[1:]))
        up, below = [], channels[-1]
        for i in range(scales - 1, 0, -1):
            above = 512 if i == scales - 1 else WIDTHS[i - 1]
            up.append(nn.Sequential(nn.ConvTranspose3d(below, above, 4, 2, 1), nn.ReLU(inplace=True)))
            below = above + channels[i]
        self.up, self.last = nn.ModuleList(up), nn.ConvTranspose3d(below, 5, 4, 2, 1)

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        skips.pop()
        for layer in self.up:
            x = torch.cat([layer(x), skips.pop()], 1)
        return torch.tanh(self.last(x))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y, heads = self.norm1(x), lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(self.q(y)), heads(self.k(y)), heads(self.v(y)))
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """models/vit.dl without dropout."""

    def __init__(self, img_size, channels=20, patch=8, width=384, depth=12, heads=8):
        super().__init__()
        self.patch, self.channels, self.grid = patch, channels, (img_size[0] // patch, img_size[1] // patch)
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, self.grid[0] * self.grid[1], width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, channels * patch * patch, bias=False)

    def forward(self, x):
        y = self.blocks(self.embed(x).flatten(2).transpose(1, 2) + self.pos)
        y = self.head(self.norm(y)).unflatten(-1, (self.patch, self.patch, self.channels)).unflatten(1, self.grid)
        return y.permute(0, 5, 1, 3, 2, 4).reshape(x.shape)


def relative_l2(y, t):
    return ((y - t).flatten(1).norm(dim=1) / t.flatten(1).norm(dim=1)).mean()


class CB(nn.Sequential):
    def __init__(self, i, o, k=1, stride=1):
        super().__init__(nn.Conv2d(i, o, k, stride, k // 2), nn.BatchNorm2d(o))


class Bottleneck(nn.Module):
    def __init__(self, i, f, o, stride, project):
        super().__init__()
        self.body = nn.Sequential(CB(i, f, 1, stride), nn.ReLU(inplace=True), CB(f, f, 3), nn.ReLU(inplace=True),
                                  CB(f, o))
        self.shortcut = CB(i, o, 1, stride) if project else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """models/resnet.dl: `small` has a 3x3 stem and no pooling."""

    def __init__(self, small, depths, strides, expand, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1) if small else nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64),
                                  nn.ReLU(inplace=True), nn.Identity() if small else nn.MaxPool2d(3, 2, 1))
        blocks, i = [], 64
        for width, depth, stride in zip(WIDTHS, depths, strides):
            for b in range(depth):
                blocks.append(Bottleneck(i, width, width * expand, stride if b == 0 else 1, b == 0))
                i = width * expand
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(i, classes)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class Regressor(nn.Sequential):
    """models/cnn_regressor.dl."""

    def __init__(self, channels=1, hidden=64, depth=5):
        widths = [channels] + [hidden] * (depth - 1) + [channels]
        super().__init__(*(layer for a, b in zip(widths, widths[1:])
                           for layer in (nn.Conv2d(a, b, 3, padding=1), nn.LeakyReLU(0.01, inplace=True))))


class Classifier(nn.Sequential):
    """models/cnn_classifier.dl without dropout, 32x32."""

    def __init__(self, classes=10):
        stages = (layer for a, b in ((3, 16), (16, 32), (32, 64))
                  for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)))
        super().__init__(*stages, nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(inplace=True), nn.Linear(128, classes))


class Spectral(nn.Module):
    """A Fourier layer of an FNO (Li et al. 2021), as its authors wrote it: the low modes of either sign of H."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        for name in ("weights1", "weights2"):
            setattr(self, name,
                    nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.complex64) * 0.5 / width))

    def forward(self, x):
        m, spectrum = self.modes, torch.fft.rfft2(x)
        made = torch.zeros_like(spectrum)
        made[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.weights1)
        made[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.weights2)
        return torch.fft.irfft2(made, s=x.shape[-2:])


class FNO(nn.Module):
    def __init__(self, width=32, modes=12, layers=4, hidden=128):
        super().__init__()
        self.fc0, self.fc1, self.fc2 = nn.Conv2d(3, width, 1), nn.Conv2d(width, hidden, 1), nn.Conv2d(hidden, 1, 1)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(layers))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))

    def forward(self, x):
        rows, columns = (torch.linspace(0, 1, n) for n in x.shape[2:])
        h = self.fc0(torch.cat([x, rows[:, None].expand_as(x), columns.expand_as(x)], 1))
        for i, (spectral, local) in enumerate(zip(self.spectral, self.local)):
            h = spectral(h) + local(h)
            h = F.gelu(h) if i < len(self.local) - 1 else h
        return self.fc2(F.gelu(self.fc1(h)))


def image(batch, channels, *sides):
    return torch.randn(batch, channels, *sides)


def resnet(small, depths, strides, expand, classes, side):
    """Weight decay stands for the loss's sum of squares of weights."""
    return lambda batch: (ResNet(small, depths, strides, expand, classes), F.cross_entropy, image(batch, 3, side, side),
                          torch.randint(classes, (batch,)), 1e-4)


def vit(*sides):
    return lambda batch: (ViT(sides), relative_l2, image(batch, 20, *sides), image(batch, 20, *sides), 0)


# name -> batch -> (network, loss, input, target, weight decay)
MODELS = {
    "unet": lambda batch: (UNet(6), F.l1_loss, image(batch, 4, 64, 64, 64), image(batch, 5, 64, 64, 64), 0),
    "vit_88x176": vit(88, 176),
    "vit_360x720": vit(360, 720),
    "resnet50_32": resnet(True, (3, 4, 6, 3), (1, 2, 2, 2), 4, 100, 32),
    "resnet50_64": resnet(False, (3, 4, 6, 3), (1, 2, 2, 2), 4, 100, 64),
    "resnet50_224": resnet(False, (3, 4, 6, 3), (1, 2, 2, 2), 4, 100, 224),
    "resnet_small": resnet(True, (2, 2, 2, 2), (2, 2, 2, 2), 1, 10, 32),
    "cnn_regressor": lambda batch: (Regressor(), F.mse_loss, image(batch, 1, 128, 128), image(batch, 1, 128, 128), 0),
    "fno": lambda batch: (FNO(), F.mse_loss, image(batch, 1, 64, 64), image(batch, 1, 64, 64), 0),
    "cnn_classifier": lambda batch: (Classifier(), F.cross_entropy, image(batch, 3, 32, 32),
                                     torch.randint(10, (batch,)), 0),
}
