"""PyTorch modules beside models of the model language, with the same parameter names."""
import torch
from torch import nn


class Scale(nn.Sequential):
    """One layer of the U-Net: a convolution that halves or doubles the volume, and its activation."""

    def __init__(self, up, inputs, outputs):
        kind = nn.ConvTranspose3d if up else nn.Conv3d
        super().__init__(kind(inputs, outputs, 4, stride=2, padding=1), nn.ReLU() if up else nn.LeakyReLU(0.01))


class UNet(nn.Module):
    """models/unet.dl."""

    def __init__(self, full_scale=True, outputs=5, std=0.02):
        super().__init__()
        widths = [64, 128, 256, 512, 512, 512]
        self.scales = 6 if full_scale else 5
        channels = [4] + widths[:self.scales]
        for i in range(1, self.scales + 1):
            self.add_module(f"conv_down{i}", Scale(False, channels[i - 1], channels[i]))
        below = channels[self.scales]
        for i in range(self.scales, 1, -1):
            above = 512 if i == self.scales else widths[i - 2]
            self.add_module(f"conv_up{i}", Scale(True, below, above))
            below = above + channels[i - 1]
        self.conv_last = nn.ConvTranspose3d(below, outputs, 4, stride=2, padding=1)
        for name, p in self.named_parameters():
            nn.init.normal_(p, 0, std) if name.endswith("weight") else nn.init.zeros_(p)

    def forward(self, x):
        skips = []
        for i in range(1, self.scales + 1):
            x = getattr(self, f"conv_down{i}")(x)
            skips.append(x)
        for i in range(self.scales, 1, -1):
            x = torch.cat([getattr(self, f"conv_up{i}")(x), skips[i - 2]], 1)
        return torch.tanh(self.conv_last(x))


class Signal(nn.Module):
    """1-D: odd kernels, strides 1 to 3, a transposed convolution with output padding."""
    shapes = (2, 3, 37), (2, 2, 37)
    text = """
model Signal():
    input  x: f32[N, C=3, T=37]
    target t: f32[N, C=2, T]
    a = x |> conv(10, 5, stride=3, pad=2) |> tanh
    b = a |> conv(7, 3, pad=1) |> leaky_relu(0.2)
    y = cat(a, b, over=C) |> conv_transpose(6, 7, stride=3, pad=3) |> sigmoid
    y = y |> conv(2, 1) @last
    output y
    loss = mean((y - t)**2)
    metric "error, first channel" = mean(abs((y - t)[C=0]))
"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(3, 10, 5, stride=3, padding=2)
        self.b = nn.Conv1d(10, 7, 3, padding=1)
        self.y = nn.ConvTranspose1d(17, 6, 7, stride=3, padding=3)
        self.last = nn.Conv1d(6, 2, 1)

    def forward(self, x):
        a = torch.tanh(self.a(x))
        b = nn.functional.leaky_relu(self.b(a), 0.2)
        return self.last(torch.sigmoid(self.y(torch.cat([a, b], 1))))

    @staticmethod
    def loss(y, t):
        return ((y - t) ** 2).mean()


class Field(nn.Module):
    """2-D, not square: kernels, strides and paddings that differ by axis, a sum of branches, no bias here and there."""
    shapes = (2, 5, 18, 29), (2, 3, 18, 29)
    text = """
module Block(c, kernel, pad)(x):
    return x |> conv(c, kernel, pad=pad) @conv |> relu

model Field(width=12):
    input  x: f32[N, C=5, H=18, W=29]
    target t: f32[N, C=3, H, W]
    h = x |> Block(width, [3, 5], [1, 2]) @first
    for i in range(2): h = h + (h |> Block(width, [5, 1], [2, 0]) @blocks.{i})
    d = h |> conv(width + 4, [4, 3], stride=[2, 1], pad=[1, 1], bias=false) @down |> leaky_relu(0.1)
    u = d |> conv_transpose(width, [4, 3], stride=[2, 1], pad=[1, 1], bias=false) @up
    y = u * tanh(h) + h |> conv(3, 3, pad=1) @out
    output y
    loss = mean(abs(y - t)) + 0.1 * mean(sqrt(mean((y - t)**2, over=[H, W])))
    metric "largest" = mean(max(y, over=[C, H, W]))
    figure "Field" = [t[N=0, C=1], y[N=0, C=1]]
"""

    def __init__(self, width=12):
        super().__init__()
        block = lambda inputs, kernel, pad: nn.ModuleDict({"conv": nn.Conv2d(inputs, width, kernel, padding=pad)})
        self.first = block(5, (3, 5), (1, 2))
        self.blocks = nn.ModuleList([block(width, (5, 1), (2, 0)) for _ in range(2)])
        self.down = nn.Conv2d(width, width + 4, (4, 3), stride=(2, 1), padding=1, bias=False)
        self.up = nn.ConvTranspose2d(width + 4, width, (4, 3), stride=(2, 1), padding=1, bias=False)
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        h = torch.relu(self.first["conv"](x))
        for block in self.blocks:
            h = h + torch.relu(block["conv"](h))
        u = self.up(nn.functional.leaky_relu(self.down(h), 0.1))
        return self.out(u * torch.tanh(h) + h)

    @staticmethod
    def loss(y, t):
        return (y - t).abs().mean() + 0.1 * ((y - t) ** 2).mean((2, 3)).sqrt().mean()


class Volume(nn.Module):
    """3-D, three different sides: cat of three, strides by axis, a convolution without padding, a loss by channel."""
    shapes = (2, 4, 9, 12, 7), (2, 5, 9, 12, 7)
    text = """
model Volume():
    input  x: f32[N, C=4, D=9, H=12, W=7]
    target t: f32[N, C=5, D, H, W]
    a = x |> conv(8, 3, pad=1) |> leaky_relu(0.01)
    b = x |> conv(6, 5, pad=2) |> tanh
    c = cat(x, a, b, over=C) |> conv(20, [3, 4, 3], stride=[1, 2, 1], pad=[0, 1, 1]) |> relu
    u = c |> conv_transpose(9, [3, 4, 3], stride=[1, 2, 1], pad=[0, 1, 1]) |> relu
    y = cat(u, a, x, over=C) |> conv_transpose(5, 3, pad=1) @last |> tanh
    output y
    rho(v) = exp(2 * v[C=0])
    loss = mean(abs(y - t)) + 0.5 * mean(abs(rho(y) - rho(t)))
    metric "error by batch" = mean(norm(y - t, over=[C, D, H, W]) / norm(t, over=[C, D, H, W]))
    figure "Slice" = [x[N=0, C=0, D=4], t[N=0, C=0, D=4], y[N=0, C=0, D=4]]
"""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv3d(4, 8, 3, padding=1)
        self.b = nn.Conv3d(4, 6, 5, padding=2)
        self.c = nn.Conv3d(18, 20, (3, 4, 3), stride=(1, 2, 1), padding=(0, 1, 1))
        self.u = nn.ConvTranspose3d(20, 9, (3, 4, 3), stride=(1, 2, 1), padding=(0, 1, 1))
        self.last = nn.ConvTranspose3d(21, 5, 3, padding=1)

    def forward(self, x):
        a = nn.functional.leaky_relu(self.a(x), 0.01)
        b = torch.tanh(self.b(x))
        c = torch.relu(self.c(torch.cat([x, a, b], 1)))
        u = torch.relu(self.u(c))
        return torch.tanh(self.last(torch.cat([u, a, x], 1)))

    @staticmethod
    def loss(y, t):
        rho = lambda v: torch.exp(2 * v[:, 0])
        return (y - t).abs().mean() + 0.5 * (rho(y) - rho(t)).abs().mean()


class Patches(nn.Module):
    """A transformer over patches: linear layers, layer norms, attention, gelu, axes split and joined, sizes that divide nothing."""
    shapes = (3, 2, 10, 15), (3, 4, 10, 15)
    text = """
module Attention(heads)(x: [N, T, E]):
    q = x |> linear(E)
    k = x |> linear(E, bias=false)  # which the softmax would not see
    v = x |> linear(E)
    return attention(q, k, v, heads) |> linear(E) @proj

module Block(heads)(x: [N, T, E]):
    x = x + (x |> layer_norm(1e-5) @norm1 |> Attention(heads) @attn)
    return x + (x |> layer_norm(1e-5) @norm2 |> linear(2*E + 3) @fc1 |> gelu |> linear(E) @fc2)

model Patches(p=5, width=18):
    input  x: f32[N, C=2, H=10, W=15]
    target t: f32[N, C=4, H, W]
    param place: [1, T=H/p * W/p, E=width] ~ normal(0, 0.02)
    z = x |> conv(width, p, stride=p) @embed |> rearrange("n c h w -> n (h w) c") as [N, T, E]
    z = z + place
    for i in range(2): z = z |> Block(3) @blocks.{i}
    y = z |> layer_norm(1e-5) @norm |> linear(p*p*4, bias=false) @head
          |> rearrange("n (h w) (p q c) -> n c (h p) (w q)", h=H/p, p=p, q=p) as [N, C, H, W]
    output y
    loss = mean(norm(y - t, over=[C, H, W]) / norm(t, over=[C, H, W]))
    metric "first" = mean(abs((y - t)[C=0]))
"""

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.q, self.k, self.v, self.proj = (nn.Linear(width, width, bias=i != 1) for i in range(4))

        def forward(self, x, heads=3):
            q, k, v = (f(x).unflatten(2, (heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            share = torch.softmax(q @ k.transpose(2, 3) / q.shape[3]**0.5, 3)
            return self.proj((share @ v).transpose(1, 2).flatten(2))

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm1, self.norm2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), Patches.Attention(width)
            self.fc1, self.fc2 = nn.Linear(width, 2 * width + 3), nn.Linear(2 * width + 3, width)

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x))))

    def __init__(self, p=5, width=18):
        super().__init__()
        self.p, self.embed = p, nn.Conv2d(2, width, p, stride=p)
        self.place = nn.Parameter(torch.randn(1, 6, width) * 0.02)
        self.blocks = nn.ModuleList([Patches.Block(width) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, p * p * 4, bias=False)

    def forward(self, x):
        z = self.embed(x).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            z = block(z)
        y = self.head(self.norm(z)).reshape(-1, 2, 3, self.p, self.p, 4)
        return y.permute(0, 5, 1, 3, 2, 4).reshape(-1, 4, 10, 15)

    @staticmethod
    def loss(y, t):
        return ((y - t).flatten(1).norm(dim=1) / t.flatten(1).norm(dim=1)).mean()


NETS = Signal, Field, Volume, Patches
