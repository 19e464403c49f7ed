"""PyTorch modules next to models of the model language, with the same parameter names."""
import torch
from torch import nn


class Scale(nn.Sequential):
    """One layer of the U-Net: a convolution that halves or doubles the volume, and its activation."""

    def __init__(self, up, inputs, outputs):
        kind = nn.ConvTranspose3d if up else nn.Conv3d
        super().__init__(kind(inputs, outputs, 4, stride=2, padding=1), nn.ReLU() if up else nn.LeakyReLU(0.01))


class UNet(nn.Module):
    """models/unet.dl, or `narrowed` to an n-th of its channels."""

    def __init__(self, full_scale=True, outputs=5, std=0.02, divisor=1):
        super().__init__()
        widths = [w // divisor for w in (64, 128, 256, 512, 512, 512)]
        self.scales = 6 if full_scale else 5
        channels = [4] + widths[:self.scales]
        for i in range(1, self.scales + 1):
            self.add_module(f"conv_down{i}", Scale(False, channels[i - 1], channels[i]))
        below = channels[self.scales]
        for i in range(self.scales, 1, -1):
            above = widths[-1] if i == self.scales else widths[i - 2]
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


class Dilated(nn.Module):
    """1-D: gates of dilated convolutions with `same` padding (odd totals too), dilated transposed ones whose out_pad
    exceeds their stride, with padding and without."""
    shapes = (2, 3, 41), (2, 2, 43)
    text = """
model Dilated(width=10):
    input  x: f32[N, C=3, T=41]
    target t: f32[N, C=2, V=43]
    y = x |> conv(width, 1) @first
    for i in range(3):
        f = y |> conv(width, 4, dilation=2**i, pad=same) @f{i} |> tanh
        g = y |> conv(width, 4, dilation=2**i, pad=same, groups=2) @g{i} |> sigmoid
        y = y + f * g
    z = y |> conv_transpose(6, 3, pad=2, out_pad=2, dilation=3, groups=2) @grow |> relu
    z = z |> conv_transpose(6, 3, out_pad=2, dilation=3) @more |> conv(4, 6, stride=1, dilation=2) @back
    z = z |> conv(2, 1) @last
    z = z as [N, C, V]
    output z
    loss = mean((z - t)**2)
"""

    def __init__(self, width=10):
        super().__init__()
        self.first = nn.Conv1d(3, width, 1)
        for i in range(3):
            self.add_module(f"f{i}", nn.Conv1d(width, width, 4, dilation=2**i, padding="same"))
            self.add_module(f"g{i}", nn.Conv1d(width, width, 4, dilation=2**i, padding="same", groups=2))
        self.grow = nn.ConvTranspose1d(width, 6, 3, padding=2, output_padding=2, dilation=3, groups=2)
        self.more = nn.ConvTranspose1d(6, 6, 3, output_padding=2, dilation=3)
        self.back = nn.Conv1d(6, 4, 6, dilation=2)
        self.last = nn.Conv1d(4, 2, 1)

    def forward(self, x):
        y = self.first(x)
        for i in range(3):
            y = y + torch.tanh(getattr(self, f"f{i}")(y)) * torch.sigmoid(getattr(self, f"g{i}")(y))
        return self.last(self.back(self.more(torch.relu(self.grow(y)))))

    @staticmethod
    def loss(y, t):
        return ((y - t) ** 2).mean()


class Separable(nn.Module):
    """2-D: depthwise convolutions, strided and dilated, groups whose channels do not fill panels, both ways."""
    shapes = (2, 3, 17, 22), (2, 4, 17, 22)
    text = """
model Separable(width=34):
    input  x: f32[N, C=3, H=17, W=22]
    target t: f32[N, C=4, H, W]
    a = x |> conv(width, 3, pad=1) @stem |> relu
    b = a + (a |> conv(width, 7, pad=3, groups=width) @depth |> conv(2*width, 1) @wide |> relu \
        |> conv(width, 1, groups=17) @narrow)
    c = b |> conv(2*width, 3, stride=2, pad=[2, 1], dilation=[2, 1], groups=width) @down |> leaky_relu(0.1)
    d = c |> conv_transpose(2*width, [3, 4], stride=2, pad=1, groups=2*width, bias=false) @up \
        |> conv_transpose(20, 3, pad=1, groups=4) @join
    y = cat(d, a, over=C) |> conv(4, 3, pad=2, dilation=2, groups=2, bias=false) @out
    output y
    loss = mean(norm(y - t, over=[C, H, W]))
"""

    def __init__(self, width=34):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.depth = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.wide, self.narrow = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(2 * width, width, 1, groups=17)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=(2, 1), dilation=(2, 1), groups=width)
        self.up = nn.ConvTranspose2d(2 * width, 2 * width, (3, 4), stride=2, padding=1, groups=2 * width, bias=False)
        self.join = nn.ConvTranspose2d(2 * width, 20, 3, padding=1, groups=4)
        self.out = nn.Conv2d(20 + width, 4, 3, padding=2, dilation=2, groups=2, bias=False)

    def forward(self, x):
        a = torch.relu(self.stem(x))
        b = a + self.narrow(torch.relu(self.wide(self.depth(a))))
        c = nn.functional.leaky_relu(self.down(b), 0.1)
        return self.out(torch.cat([self.join(self.up(c)), a], 1))

    @staticmethod
    def loss(y, t):
        return (y - t).flatten(1).norm(dim=1).mean()


class Patches(nn.Module):
    """A transformer over patches: linear layers, layer norms, attention, gelu, axes split and joined, sizes that divide
    nothing."""
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


class Norms(nn.Module):
    """Batch norms: in front of an activation, after a stride, one whose statistics are of few values."""
    shapes = (4, 3, 9, 7), (4, 2, 9, 7)
    text = """
module Block(c, stride)(x): return x |> conv(c, 3, stride=stride, pad=1, bias=false) @conv |> batch_norm @bn |> relu

model Norms():
    input  x: f32[N, C=3, H=9, W=7]
    target t: f32[N, C=2, H, W]
    a = x |> Block(8, 1) @first
    b = a |> Block(12, 2) @second
    m = mean(b, over=[H, W])
    y = (a * mean(m, over=C)) |> conv(2, 1) @last
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        block = lambda i, o, s: nn.ModuleDict({"conv": nn.Conv2d(i, o, 3, stride=s, padding=1, bias=False),
                                               "bn": nn.BatchNorm2d(o)})
        self.first, self.second, self.last = block(3, 8, 1), block(8, 12, 2), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        step = lambda block, x: torch.relu(block["bn"](block["conv"](x)))
        a = step(self.first, x)
        return self.last(a * step(self.second, a).mean((1, 2, 3))[:, None, None, None])

    @staticmethod
    def loss(y, t):
        return ((y - t) ** 2).mean()


def philox(seed, step, number, n):
    """What op `number` draws for n elements in a step, uniform in [0, 1): ir/base/philox.h once more, by its words
    alone."""
    numbers = []
    for block in range((n + 3) // 4):
        c = [block % 2**32, block >> 32, step % 2**32, 6 + 256 * number]
        key = [seed % 2**32, seed >> 32]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(q >> 32) ^ c[1] ^ key[0], q % 2**32, (p >> 32) ^ c[3] ^ key[1], p % 2**32]
            key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
        numbers += [(word >> 8) / 2**24 for word in c]
    return torch.tensor(numbers[:n])


class Drops(nn.Module):
    """Dropout of elements, of samples as a whole, and of attention's shares, with what the model draws drawn here
    too."""
    shapes = (5, 7, 12), (5, 7, 12)
    text = """
model Drops(rate=0.3):
    input  x: f32[N, T=7, E=12]
    target t: f32[N, T, E]
    z = x |> linear(E) @a |> dropout(0.1)
    q = z |> linear(E)
    k = z |> linear(E, bias=false)
    v = z |> linear(E)
    z = z + (attention(q, k, v, 3, dropout=rate) |> drop_path(0.4))
    z = dropout(z |> dropout(0.0), 0.5)
    y = z |> linear(E) @b
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.a, self.q, self.k, self.v, self.b = (nn.Linear(12, 12, bias=i != 2) for i in range(5))
        self.step = -1

    def drop(self, x, number, rate, shape):
        kept = philox(0, self.step, number, shape.numel()).reshape(shape) >= rate
        return x * kept.reshape(shape + (1,) * (x.dim() - len(shape))) / (1 - rate)

    def forward(self, x):
        self.step += 1
        z = self.drop(self.a(x), 0, 0.1, x.shape)
        q, k, v = (f(z).unflatten(2, (3, -1)) for f in (self.q, self.k, self.v))
        share = torch.softmax(torch.einsum("nthf,nshf->nhts", q, k) / q.shape[3]**0.5, 3)
        y = torch.einsum("nhts,nshf->nthf", self.drop(share, 1, 0.3, share.shape), v).flatten(2)
        z = z + self.drop(y, 2, 0.4, y.shape[:1])
        return self.b(self.drop(z, 3, 0.5, z.shape))

    @staticmethod
    def loss(y, t):
        return ((y - t) ** 2).mean()


class Windows(nn.Module):
    """Pools that overlap, pad and leave a rest, both ways to enlarge, borders that go round or mirror, norms over
    groups; weather-like."""
    shapes = (2, 3, 23, 38), (2, 5, 23, 38)
    text = """
model Windows():
    input  x: f32[N, C=3, H=23, W=38]
    target t: f32[N, C=5, H, W]
    a = x |> pad(2, mode="circular", over=W) |> pad([1, 1], mode="reflect", over=H) |> conv(16, [3, 5]) @a \
        |> group_norm(4) @ga |> relu
    b = a |> max_pool(3, stride=2, pad=1) |> conv(20, 3, pad=1, bias=false) @b |> instance_norm(affine=true) @ib
    c = b |> avg_pool([3, 2], stride=[2, 3], pad=1, count_include_pad=false) \
        |> pad(1, mode="replicate", over=[H, W]) |> conv(20, 3) @c |> tanh
    d = c |> max_pool(2, stride=1, dilation=2) |> upsample(size=[12, 19], mode="bilinear")
    e = cat(d + roll(b, 3, over=W), flip(b, over=H), over=C) |> conv(16, 1) @e |> upsample(size=[23, 38])
    f = (a + e) |> adaptive_avg_pool([5, 7]) |> conv(16, 1) @f \
        |> upsample(size=[23, 38], mode="bilinear", align_corners=true)
    y = (a * f + e) |> conv(5, 1) @last
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.a, self.ga = nn.Conv2d(3, 16, (3, 5)), nn.GroupNorm(4, 16)
        self.b, self.ib = nn.Conv2d(16, 20, 3, padding=1, bias=False), nn.InstanceNorm2d(20, affine=True)
        self.c, self.e, self.f, self.last = nn.Conv2d(20, 20, 3), nn.Conv2d(40, 16,
                                                                            1), nn.Conv2d(16, 16,
                                                                                          1), nn.Conv2d(16, 5, 1)

    def forward(self, x):
        f = nn.functional
        up = lambda x, size, corners=False: f.interpolate(x, size, mode="bilinear", align_corners=corners)
        a = torch.relu(self.ga(self.a(f.pad(f.pad(x, (2, 2, 0, 0), "circular"), (0, 0, 1, 1), "reflect"))))
        b = self.ib(self.b(f.max_pool2d(a, 3, 2, 1)))
        c = torch.tanh(self.c(f.pad(f.avg_pool2d(b, (3, 2), (2, 3), 1, count_include_pad=False), (1, 1, 1, 1),
                                    "replicate")))
        d = up(f.max_pool2d(c, 2, 1, dilation=2), (12, 19))
        e = f.interpolate(self.e(torch.cat([d + b.roll(3, 3), b.flip(2)], 1)), (23, 38))
        g = up(self.f(f.adaptive_avg_pool2d(a + e, (5, 7))), (23, 38), True)
        return self.last(a * g + e)

    @staticmethod
    def loss(y, t):
        return ((y - t) ** 2).mean()


class Tokens(nn.Module):
    """An embedding of numbers, elements by number, running sums, every second element, and functions of one tensor."""
    shapes = (3, 7, 12), (3, 12, 6)
    text = """
model Tokens():
    input  x: f32[N, C=7, T=12]
    target t: f32[N, T, E=6]
    a = argmax(x, over=C) |> embedding(7, 8) @table
    b = a |> linear(6) @b |> elu(0.7)
    c = b + clamp(cumsum(b, over=T) / 3, min=-1, max=1) + gelu(b, approximate="tanh") - silu(b)
    d = log_softmax(c, over=E) + softplus(c, beta=2, threshold=1)
    y = d * rsqrt(square(c) + 1) + log1p(square(b)) - expm1(b / 8)
    output y
    best = gather(y, argmax(x[C=0:6], over=C), over=E)
    loss = mean((y - t)**2) + mean(best[T=1:12:3]) + mean(prod(b[E=0::4], over=E)) * 0.1
    metric "some" = mean(where(any(x > 2, over=[C, T]), 1.0, 0.0)) + mean(where(all(x > -2, over=C), 1.0, 0.0))
"""

    def __init__(self):
        super().__init__()
        self.table, self.b = nn.Embedding(7, 8), nn.Linear(8, 6)

    def forward(self, x):
        f = nn.functional
        self.x, self.h = x, f.elu(self.b(self.table(x.argmax(1))), 0.7)
        b = self.h
        c = b + (b.cumsum(1) / 3).clamp(-1, 1) + f.gelu(b, approximate="tanh") - f.silu(b)
        d = f.log_softmax(c, 2) + f.softplus(c, 2, 1)
        return d * torch.rsqrt(c.square() + 1) + torch.log1p(b.square()) - torch.expm1(b / 8)

    def loss(self, y, t):
        best = y.gather(2, self.x[:, :6].argmax(1)[:, :, None])[..., 0]
        return ((y - t) ** 2).mean() + best[:, 1:12:3].mean() + self.h[..., 0::4].prod(2).mean() * 0.1


NETS = Tokens, Signal, Field, Volume, Dilated, Separable, Patches, Norms, Drops, Windows
