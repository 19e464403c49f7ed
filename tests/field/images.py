"""Pictures and volumes: classes, regions, noise."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from base import Field, Mlp, SelfAttention, attend, folder


class Classes(Field):
    """A class for each picture of three colours."""

    def batch(self, n):
        return {"x": torch.randn(n, 3, self.size, self.size), "t": torch.randint(self.classes, (n, ))}

    def loss(self, x, t):
        return F.cross_entropy(self(x), t)


class WindowAttention(SelfAttention):
    def __init__(self, width, heads, window):
        super().__init__(width, heads)
        self.relative_position_bias_table = nn.Parameter(0.02 * torch.randn((2 * window - 1)**2, heads))


class SwinBlock(nn.Module):
    def __init__(self, width, heads, window, shift):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = WindowAttention(width, heads, window), Mlp(width, 4 * width)
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"), -1).reshape(-1, 2)
        far = at[:, None] - at[None] + window - 1
        self.index = far[..., 0] * (2 * window - 1) + far[..., 1]
        self.masks = {}

    def windows(self, x):
        n, h, w, c = x.shape
        k = self.window
        return x.view(n, h // k, k, w // k, k, c).transpose(2, 3).reshape(-1, k * k, c)

    def mask(self, h, w, like):
        """Minus 100 between parts of a moved window that were apart, as the authors have it: it underflows."""
        if (h, w) not in self.masks:
            region = torch.zeros(1, h, w, 1)
            for i, rows in enumerate((slice(-self.window), slice(-self.window, -self.shift), slice(-self.shift, None))):
                for j, columns in enumerate((slice(-self.window), slice(-self.window, -self.shift),
                                             slice(-self.shift, None))):
                    region[:, rows, columns] = 3 * i + j
            of = self.windows(region)[..., 0]
            self.masks[h, w] = torch.where(of[:, None] == of[..., None], 0.0, -math.inf)
        return self.masks[h, w].to(like)

    def forward(self, x):
        n, h, w, c = x.shape
        y = self.norm1(x)
        y = y.roll((-self.shift, -self.shift), (1, 2)) if self.shift else y
        bias = self.attn.relative_position_bias_table[self.index].permute(2, 0, 1)[None]
        if self.shift:
            bias = (bias + self.mask(h, w, y)[:, None]).repeat(n, 1, 1, 1)
        y = self.attn(self.windows(y), bias)
        k = self.window
        y = y.view(n, h // k, w // k, k, k, c).transpose(2, 3).reshape(n, h, w, c)
        x = x + (y.roll((self.shift, self.shift), (1, 2)) if self.shift else y)
        return x + self.mlp(self.norm2(x))


class Merge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(torch.cat(parts, -1)))


class Swin(Classes):
    def __init__(self, size=224, patch=4, window=7, width=96, depths=(2, 2, 6, 2), heads=(3, 6, 12, 24), classes=1000):
        super().__init__()
        self.size, self.classes = size, classes
        self.patch_embed = folder(proj=nn.Conv2d(3, width, patch, patch), norm=nn.LayerNorm(width))
        self.layers = nn.ModuleList()
        for i, depth in enumerate(depths):
            moves = window // 2 if size // patch // 2**i > window else 0
            self.layers.append(folder(blocks=nn.ModuleList(
                SwinBlock(width * 2**i, heads[i], window, moves if j % 2 else 0) for j in range(depth))))
            if i < len(depths) - 1:
                self.layers[i].downsample = Merge(width * 2**i)
        self.norm, self.head = nn.LayerNorm(width * 2**i), nn.Linear(width * 2**i, classes)

    def forward(self, x):
        h = self.patch_embed.norm(self.patch_embed.proj(x).permute(0, 2, 3, 1))
        for layer in self.layers:
            for block in layer.blocks:
                h = block(h)
            h = layer.downsample(h) if hasattr(layer, "downsample") else h
        return self.head(self.norm(h).mean((1, 2)))


def conv_norm(i, o, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(o),
                         nn.ReLU6(inplace=True))


class Inverted(nn.Module):
    def __init__(self, i, o, stride, expand):
        super().__init__()
        wide = i * expand
        first = [conv_norm(i, wide, 1)] if expand > 1 else []
        self.conv = nn.Sequential(*first, conv_norm(wide, wide, 3, stride, wide), nn.Conv2d(wide, o, 1, bias=False),
                                  nn.BatchNorm2d(o))
        self.adds = stride == 1 and i == o

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(Classes):
    def __init__(self, size=224, classes=1000, first=32, last=1280, expand=(1, 6, 6, 6, 6, 6, 6),
                 widths=(16, 24, 32, 64, 96, 160, 320), repeats=(1, 2, 3, 4, 3, 3, 1), strides=(1, 2, 2, 2, 1, 2, 1)):
        super().__init__()
        self.size, self.classes = size, classes
        parts, i = [conv_norm(3, first, 3, 2)], first
        for o, depth, stride, wider in zip(widths, repeats, strides, expand):
            for j in range(depth):
                parts.append(Inverted(i, o, 1 if j else stride, wider))
                i = o
        self.features = nn.Sequential(*parts, conv_norm(i, last, 1))
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(last, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Resnet(nn.Module):
    def __init__(self, i, o, of, groups):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, i, 1e-6), nn.GroupNorm(groups, o, 1e-6)
        self.conv1, self.conv2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.temb_proj = nn.Linear(of, o)
        if i != o:
            self.nin_shortcut = nn.Conv2d(i, o, 1)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x))) + self.temb_proj(F.silu(e))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x)


class PlaceAttention(nn.Module):
    def __init__(self, c, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, c, 1e-6)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(c, c, 1) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (f(h).flatten(2).transpose(1, 2)[:, None] for f in (self.q, self.k, self.v))
        return x + self.proj_out(attend(q, k, v)[:, 0].transpose(1, 2).reshape(x.shape))


class DDPM(Field):
    """Without dropout."""

    def __init__(self, size=32, channels=3, width=128, widths=(1, 2, 2, 2), blocks=2, attended=16,
                 norm_groups=32, steps=1000):
        super().__init__()
        groups = norm_groups
        self.size, self.channels, self.steps, self.width = size, channels, steps, width
        of, places = 4 * width, [size // 2**i == attended for i in range(len(widths))]
        self.temb = folder(dense=nn.ModuleList([nn.Linear(width, of), nn.Linear(of, of)]))
        self.conv_in = nn.Conv2d(channels, width, 3, padding=1)
        self.down, self.up, c, skips = nn.ModuleList(), nn.ModuleList(), width, [width]
        for i, factor in enumerate(widths):
            level = folder(block=nn.ModuleList(), attn=nn.ModuleList())
            for _ in range(blocks):
                level.block.append(Resnet(c, width * factor, of, groups))
                c = width * factor
                skips.append(c)
                if places[i]:
                    level.attn.append(PlaceAttention(c, groups))
            if i < len(widths) - 1:
                level.downsample = folder(conv=nn.Conv2d(c, c, 3, 2))
                skips.append(c)
            self.down.append(level)
        self.mid = folder(block_1=Resnet(c, c, of, groups), attn_1=PlaceAttention(c, groups),
                          block_2=Resnet(c, c, of, groups))
        for i in reversed(range(len(widths))):
            level = folder(block=nn.ModuleList(), attn=nn.ModuleList())
            for _ in range(blocks + 1):
                level.block.append(Resnet(c + skips.pop(), width * widths[i], of, groups))
                c = width * widths[i]
                if places[i]:
                    level.attn.append(PlaceAttention(c, groups))
            if i:
                level.upsample = folder(conv=nn.Conv2d(c, c, 3, padding=1))
            self.up.insert(0, level)
        self.norm_out, self.conv_out = nn.GroupNorm(groups, c, 1e-6), nn.Conv2d(c, channels, 3, padding=1)

    def batch(self, n):
        return {"x": torch.randn(n, self.channels, self.size, self.size), "step": 10.0 * torch.arange(n)}

    def forward(self, x, step):
        half = self.width // 2
        angles = step[:, None] * torch.exp(-math.log(10000) / (half - 1) * torch.arange(half, dtype=x.dtype))
        e = self.temb.dense[0](torch.cat([angles.sin(), angles.cos()], 1))
        e, h = self.temb.dense[1](F.silu(e)), self.conv_in(x)
        skips = [h]

        def block(level, j, h):
            h = level.block[j](h, e)
            return level.attn[j](h) if len(level.attn) else h

        for level in self.down:
            for j in range(len(level.block)):
                h = block(level, j, h)
                skips.append(h)
            if hasattr(level, "downsample"):
                h = level.downsample.conv(F.pad(h, (0, 1, 0, 1)))
                skips.append(h)
        h = self.mid.block_2(self.mid.attn_1(self.mid.block_1(h, e)), e)
        for level in reversed(self.up):
            for j in range(len(level.block)):
                h = block(level, j, torch.cat([h, skips.pop()], 1))
            if hasattr(level, "upsample"):
                h = level.upsample.conv(F.interpolate(h, scale_factor=2, mode="nearest"))
        return self.conv_out(F.silu(self.norm_out(h)))

    def loss(self, x, step):
        kept = torch.cumprod(1 - torch.linspace(0.0001, 0.02, self.steps, dtype=x.dtype), 0)
        t = torch.floor(self.steps * self.rand(len(x))).long()
        signal, noise = kept[t][:, None, None, None], self.randn(*x.shape).to(x)
        return F.mse_loss(self(signal.sqrt() * x + (1 - signal).sqrt() * noise, t.to(x)), noise)


class VAE(Field):
    def __init__(self, points=784, hidden=400, code=20):
        super().__init__()
        self.points = points
        self.fc1, self.fc21, self.fc22 = nn.Linear(points, hidden), nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.fc3, self.fc4 = nn.Linear(code, hidden), nn.Linear(hidden, points)

    def batch(self, n):
        return {"x": (torch.rand(n, self.points) > 0.6).float()}

    def decoded(self, z):
        return self.fc4(self.fc3(z).relu())

    def forward(self, x):
        mean = self.fc21(self.fc1(x).relu())
        return torch.sigmoid(self.decoded(mean)), mean

    def loss(self, x):
        h = self.fc1(x).relu()
        mean, log_var = self.fc21(h), self.fc22(h)
        y = self.decoded(mean + (0.5 * log_var).exp() * self.randn(*mean.shape).to(x))
        likelihood = F.binary_cross_entropy_with_logits(y, x, reduction="sum")
        return (likelihood - 0.5 * (1 + log_var - mean**2 - log_var.exp()).sum()) / len(x)


class SegBlock(nn.Module):
    def __init__(self, c, groups):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, c), nn.GroupNorm(groups, c)
        self.conv1, self.conv2 = (folder(conv=nn.Conv3d(c, c, 3, padding=1, bias=False)) for _ in range(2))

    def forward(self, x):
        return x + self.conv2.conv(F.relu(self.norm2(self.conv1.conv(F.relu(self.norm1(x))))))


class SegResNet(Field):
    """Without dropout."""

    def __init__(self, size=96, channels=4, classes=3, width=16, down=(1, 2, 2, 4), up=(1, 1, 1), norm_groups=8):
        super().__init__()
        groups = norm_groups
        self.size, self.channels, self.classes = size, channels, classes
        self.convInit = folder(conv=nn.Conv3d(channels, width, 3, padding=1, bias=False))
        self.down_layers, self.up_samples, self.up_layers = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for i, depth in enumerate(down):
            c = width * 2**i
            first = folder(conv=nn.Conv3d(c // 2, c, 3, 2, 1, bias=False)) if i else nn.Identity()
            self.down_layers.append(nn.ModuleList([first, *(SegBlock(c, groups) for _ in range(depth))]))
        for depth in up:
            self.up_samples.append(nn.ModuleList([folder(conv=nn.Conv3d(c, c // 2, 1, bias=False))]))
            c //= 2
            self.up_layers.append(nn.Sequential(*(SegBlock(c, groups) for _ in range(depth))))
        self.conv_final = nn.ModuleList([nn.GroupNorm(groups, c), nn.ReLU(), folder(conv=nn.Conv3d(c, classes, 1))])

    def batch(self, n):
        sides = [self.size] * 3
        return {"x": torch.randn(n, self.channels, *sides), "t": (torch.rand(n, self.classes, *sides) > 0.7).float()}

    def forward(self, x):
        h, skips = self.convInit.conv(x), []
        for i, (first, *blocks) in enumerate(self.down_layers):
            h = first.conv(h) if i else h
            for block in blocks:
                h = block(h)
            skips.append(h)
        for i, (shrink, blocks) in enumerate(zip(self.up_samples, self.up_layers)):
            h = F.interpolate(shrink[0].conv(h), scale_factor=2, mode="trilinear", align_corners=False)
            h = blocks(h + skips[-2 - i])
        return torch.sigmoid(self.conv_final[2].conv(F.relu(self.conv_final[0](h))))

    def loss(self, x, t):
        y, over = self(x), (2, 3, 4)
        return (1 - (2 * (y * t).sum(over) + 1e-5) / (y.sum(over) + t.sum(over) + 1e-5)).mean()


class CosmoFlow(Field):
    """Without dropout."""

    def __init__(self, size=128, channels=4, width=32, layers=5, targets=4):
        super().__init__()
        self.size, self.channels, self.targets = size, channels, targets
        widths = [channels] + [width * 2**i for i in range(layers)]
        self.conv_seq = nn.ModuleList(folder(conv=nn.Conv3d(a, b, 3, padding=1)) for a, b in zip(widths, widths[1:]))
        self.dense1, self.dense2 = nn.Linear(widths[-1] * (size // 2**layers)**3, 128), nn.Linear(128, 64)
        self.output = nn.Linear(64, targets)

    def batch(self, n):
        return {"x": torch.randn(n, self.channels, *[self.size] * 3), "t": torch.randn(n, self.targets)}

    def forward(self, x):
        for part in self.conv_seq:
            x = F.max_pool3d(F.leaky_relu(part.conv(x), 0.3, inplace=True), 2)
        x = F.leaky_relu(self.dense1(x.permute(0, 2, 3, 4, 1).flatten(1)), 0.3)
        return 1.2 * torch.tanh(self.output(F.leaky_relu(self.dense2(x), 0.3)))
