"""The networks of models/*.dl in PyTorch, written as one writes them for speed there: activations in place, attention
by scaled_dot_product_attention, weight decay in the optimiser. Those of models/field are tests/field's."""
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/field"))
from gan import Pix2Pix
from table import TABLE

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


class Supervised(nn.Module):
    """A network with the loss of its result."""

    def __init__(self, net, of_result):
        super().__init__()
        self.net, self.of_result = net, of_result

    def forward(self, x):
        return self.net(x)

    def loss(self, x, t):
        return self.of_result(self.net(x), t)


def to_channels_last(model, batch):
    """Changes the model's weights, and returns the batch with its input x changed: what convolutions read."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}
    for p in model.parameters():
        if p.dim() in last:
            p.data = p.data.contiguous(memory_format=last[p.dim()])
    return {name: v.contiguous(memory_format=last[v.dim()]) if name == "x" and v.dim() in last else v
            for name, v in batch.items()}


def supervised(make, loss, x, t, decay=0):
    """A row of MODELS: `make` gives the network, `x` and `t` their tensors for a batch."""
    return lambda batch: (Supervised(make(), loss), {"x": x(batch), "t": t(batch)}, decay)


def images(channels, *sides):
    return lambda batch: torch.randn(batch, channels, *sides)


def classes(count):
    return lambda batch: torch.randint(count, (batch, ))


def resnet(small, depths, strides, expand, count, side):
    """Weight decay stands for the loss's sum of squares of weights."""
    return supervised(lambda: ResNet(small, depths, strides, expand, count), F.cross_entropy, images(3, side, side),
                      classes(count), 1e-4)


def vit(*sides):
    return supervised(lambda: ViT(sides), relative_l2, images(20, *sides), images(20, *sides))


def field(row):
    """A row of tests/field/table.py at the sizes of a measurement."""
    def make(batch):
        net = row.network(row.bench)
        return net, net.batch(batch), 0
    return make


def pix2pix(batch):
    net = Pix2Pix()
    return net, net.batch(batch), 0


# name -> batch -> (network with a function loss, or several networks with functions losses and sets, its named inputs
# and targets, weight decay)
MODELS = {
    "unet": supervised(lambda: UNet(6), F.l1_loss, images(4, 64, 64, 64), images(5, 64, 64, 64)),
    "vit_88x176": vit(88, 176),
    "vit_360x720": vit(360, 720),
    "resnet50_32": resnet(True, (3, 4, 6, 3), (1, 2, 2, 2), 4, 100, 32),
    "resnet50_64": resnet(False, (3, 4, 6, 3), (1, 2, 2, 2), 4, 100, 64),
    "resnet50_224": resnet(False, (3, 4, 6, 3), (1, 2, 2, 2), 4, 100, 224),
    "resnet_small": resnet(True, (2, 2, 2, 2), (2, 2, 2, 2), 1, 10, 32),
    "cnn_regressor": supervised(Regressor, F.mse_loss, images(1, 128, 128), images(1, 128, 128)),
    "cnn_classifier": supervised(Classifier, F.cross_entropy, images(3, 32, 32), classes(10)),
    **{name: field(row) for name, row in TABLE.items()},
    "pix2pix": pix2pix,
}
