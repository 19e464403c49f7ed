"""The networks of oracle_predict.py: each in the language and in PyTorch."""
from oracle_tools import torch
from torch import nn
from torch.nn import functional as F


class UNet(nn.Module):
    """models/unet.dl with other widths and three scales."""
    text = """
module Down(c)(x): return x |> conv(c, 4, stride=2, pad=1) @0 |> leaky_relu(0.01)
module Up(c)(x):   return x |> conv_transpose(c, 4, stride=2, pad=1) @0 |> relu

model Narrow(w=[6, 8, 10]):
    input  x: f32[N, C=4, D, H, W]
    target t: f32[N, C=5, D, H, W]
    h = [x]
    for i in range(1, 4): h += [h[i-1] |> Down(w[i-1]) @conv_down{i}]
    y = h[3] |> Up(10) @conv_up3
    for i in range(2, 1, -1): y = cat(y, h[i], over=C) |> Up(w[i-2]) @conv_up{i}
    y = cat(y, h[1], over=C) |> conv_transpose(5, 4, stride=2, pad=1) @conv_last |> tanh
    output y
    loss = mean(abs(y - t))
"""

    def __init__(self):
        super().__init__()
        down = lambda a, b: nn.Sequential(nn.Conv3d(a, b, 4, 2, 1), nn.LeakyReLU(0.01))
        up = lambda a, b: nn.Sequential(nn.ConvTranspose3d(a, b, 4, 2, 1), nn.ReLU())
        self.conv_down1, self.conv_down2, self.conv_down3 = down(4, 6), down(6, 8), down(8, 10)
        self.conv_up3, self.conv_up2, self.conv_last = up(10, 10), up(18, 6), nn.ConvTranspose3d(12, 5, 4, 2, 1)

    def forward(self, x):
        a = self.conv_down1(x)
        b = self.conv_down2(a)
        y = torch.cat([self.conv_up3(self.conv_down3(b)), b], 1)
        return torch.tanh(self.conv_last(torch.cat([self.conv_up2(y), a], 1)))


class Plane(nn.Module):
    """2-D: pools, nearest upsampling, dilation, groups, a batch norm and dropout, which a prediction does not draw; two
    outputs."""
    text = """
model Plane():
    input  x: f32[N, C=3, H=24, W=36]
    target t: f32[N, C=2, H, W]
    a = x |> conv(8, 3, pad=2, dilation=2) @a |> batch_norm @norm |> relu |> dropout(0.5)
    b = a |> max_pool(2) |> conv(8, 3, pad=1, groups=4) @b |> relu
    c = b |> avg_pool(3, stride=3) |> conv(6, 1) @c
    y = cat(a, c |> upsample(scale_factor=6), over=C) |> conv(2, [1, 5], pad=[0, 2]) @y
    output y
    z = tanh(y) * 3
    output z
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 8, 3, padding=2, dilation=2), nn.BatchNorm2d(8)
        self.b, self.c, self.y = nn.Conv2d(8, 8, 3, padding=1,
                                           groups=4), nn.Conv2d(8, 6, 1), nn.Conv2d(14, 2, (1, 5), padding=(0, 2))
        self.norm.running_mean.normal_(), self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        a = torch.relu(self.norm(self.a(x)))
        c = self.c(F.avg_pool2d(torch.relu(self.b(F.max_pool2d(a, 2))), 3))
        return self.y(torch.cat([a, F.interpolate(c, scale_factor=6)], 1))


class Wave(nn.Module):
    """1-D: odd strides, odd kernels."""
    text = """
model Wave():
    input  x: f32[N, C=2, L=60]
    target t: f32[N, C=1, L]
    y = x |> conv(6, 5, stride=3, pad=1) @a |> tanh |> conv(6, 3, pad=1) @b |> tanh \
        |> conv_transpose(1, 5, stride=3, pad=1) @c
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv1d(2, 6, 5, 3, 1), nn.Conv1d(6, 6, 3, 1, 1), nn.ConvTranspose1d(6, 1, 5, 3, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


class Both(nn.Module):
    """A field, one next to it, and numbers that hold for all places."""
    text = """
model Both():
    input  v: f32[N, K=4]
    input  s: f32[N, C=1, H=24, W=36]
    input  x: f32[N, C=3, H=24, W=36]
    target t: f32[N, C=2, H=24, W=36]
    g = v |> linear(8) @g
    a = (cat(x, s, over=C) |> conv(8, 3, pad=1) @a) + (g as [N, C]) |> tanh
    y = (a |> max_pool(2) |> conv(8, 3, pad=1) @b |> upsample(scale_factor=2)) + (s |> conv(8, 5, pad=2) @c) \
        |> conv(2, 1) @y
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.g, self.a, self.b = nn.Linear(4, 8), nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.c, self.y = nn.Conv2d(1, 8, 5, padding=2), nn.Conv2d(8, 2, 1)

    def forward(self, x, s, v):
        a = torch.tanh(self.a(torch.cat([x, s], 1)) + self.g(v)[:, :, None, None])
        return self.y(F.interpolate(self.b(F.max_pool2d(a, 2)), scale_factor=2) + self.c(s))


class Tokens(nn.Module):
    """Whole numbers: tokens, a mask, a class of the whole sample."""
    text = """
model Tokens():
    input  x: f32[N, T=9, F=3]
    input  tokens: i64[N, T]
    input  seen: bool[N, T]
    input  kind: i32[N]
    e = (tokens |> embedding(70000, 6) @tokens) + (x |> linear(6) @x as [N, T, E])
    h = where(seen, e, 0) + (kind |> embedding(4, 6) @kind)
    y = h |> tanh |> linear(5) @y
    output y
    loss = mean(y**2)
"""

    def __init__(self):
        super().__init__()
        self.tokens, self.kind, self.x, self.y = nn.Embedding(70000,
                                                              6), nn.Embedding(4, 6), nn.Linear(3, 6), nn.Linear(6, 5)

    def forward(self, x, tokens, seen, kind):
        e = self.tokens(tokens) + self.x(x)
        return self.y(torch.tanh(torch.where(seen[..., None], e, torch.zeros(())) + self.kind(kind)[:, None]))


class ViT(nn.Module):
    """models/vit.dl."""

    def __init__(self, size, channels, patch, width, depth, heads):
        super().__init__()
        self.p, self.heads, self.c = patch, heads, channels
        tokens = size[0] // patch * (size[1] // patch)
        self.pos_embed = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(channels, width, patch, patch)})
        block = lambda: nn.ModuleDict({
            "norm1": nn.LayerNorm(width, eps=1e-6), "norm2": nn.LayerNorm(width, eps=1e-6),
            "attn": nn.ModuleDict({k: nn.Linear(width, width) for k in ("q", "k", "v", "proj")}),
            "mlp": nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})})
        self.blocks = nn.ModuleList([block() for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, patch * patch * channels, bias=False)

    def forward(self, x):
        n, _, h, w = x.shape
        z = self.patch_embed["proj"](x).flatten(2).transpose(1, 2) + self.pos_embed
        for b in self.blocks:
            a, y = b["attn"], b["norm1"](z)
            split = lambda t: t.reshape(n, -1, self.heads, t.shape[-1] // self.heads).transpose(1, 2)
            q, k, v = (split(a[name](y)) for name in "qkv")
            y = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
            z = z + a["proj"](y.transpose(1, 2).flatten(2))
            z = z + b["mlp"]["fc2"](F.gelu(b["mlp"]["fc1"](b["norm2"](z))))
        y, p = self.head(self.norm(z)).reshape(n, h // self.p, w // self.p, self.p, self.p, self.c), self.p
        return y.permute(0, 5, 1, 3, 2, 4).reshape(n, self.c, h, w)


class Stack(nn.Module):
    """3 x 3 windows of stride 1, which go by Winograd's transforms on a CPU: of pictures, or of volumes. The slope is
    by the gradients of their inputs."""

    def __init__(self, spatial):
        super().__init__()
        axes, size, conv = ("H=40, W=38", 40, nn.Conv2d) if spatial == 2 else ("D=9, H=18, W=16", 9, nn.Conv3d)
        self.text = f"""
model Stack():
    input  x: f32[N, C=24, {axes}]
    target t: f32[N, C=64, {axes}]
    y = x |> conv(64, 3, pad=1) @a |> tanh |> conv(128, 3, pad=1) @b |> tanh |> conv(64, 3, pad=1) @c
    slope = grad(sum(y**2), x)
    output y
    output slope
    loss = mean((y - t)**2)
"""
        self.a, self.b, self.c = (conv(i, o, 3, padding=1) for i, o in ((24, 64), (64, 128), (128, 64)))

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))

    def results(self, x, last=None):
        """y and the slope, in the type of x, with channels last where `last` is such an order."""
        net = self.to(x.dtype).to(memory_format=last or torch.contiguous_format)
        x = x.to(memory_format=last or torch.contiguous_format).requires_grad_()
        y = net(x)
        slope, = torch.autograd.grad((y**2).sum(), x)
        return {"y": y.detach().double(), "slope": slope.double()}
