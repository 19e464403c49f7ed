"""Small models as users of PyTorch write them, for `dlc import`: each gives (module, shapes of its inputs)."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A residual block whose shortcut is projected where its shape changes."""

    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(*[Block(8, 8) for _ in range(3)])
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16), Block(16, 16))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layer2(self.layer1(x))), 1))


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.GELU(),
                                 nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.GELU())

    def forward(self, x):
        return self.net(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.ModuleList([DoubleConv(2, 8), DoubleConv(8, 16), DoubleConv(16, 32)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.dec = nn.ModuleList([DoubleConv(32, 16), DoubleConv(16, 8)])
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.enc[0](x)
        b = self.enc[1](F.max_pool2d(a, 2))
        c = self.enc[2](F.avg_pool2d(b, 2))
        y = self.dec[0](torch.cat([self.up[0](c), b], 1))
        y = self.dec[1](torch.cat([self.up[1](y), a], 1))
        return torch.tanh(self.out(y))


class Attention(nn.Module):
    def __init__(self, e, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.proj = (nn.Linear(e, e) for _ in range(4))

    def forward(self, x):
        n, t, e = x.shape
        q, k, v = (f(x).view(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, e))


class Encoder(nn.Module):
    def __init__(self, e, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(e, eps=1e-6), Attention(e, heads)
        self.norm2 = nn.LayerNorm(e, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(e, 2 * e), nn.GELU(approximate="tanh"), nn.Dropout(0.0), nn.Linear(2 * e, e))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, e=16):
        super().__init__()
        self.patch = nn.Conv2d(3, e, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, e) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 17, e) * 0.02)
        self.blocks = nn.ModuleList([Encoder(e, 4) for _ in range(3)])
        self.norm, self.head = nn.LayerNorm(e), nn.Linear(e, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x)[:, 0])


class Series(nn.Module):
    """A 1-D network: dilated convolutions, gates, a scale for each block that differs."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Conv1d(2, 8, 1)
        self.convs = nn.ModuleList([nn.Conv1d(8, 16, 3, padding=2**i, dilation=2**i) for i in range(4)])
        self.mix = nn.ModuleList([nn.Conv1d(8, 8, 1) for _ in range(4)])
        self.last = nn.Conv1d(8, 1, 1)

    def forward(self, x):
        x = self.lift(x)
        skip = 0
        for c, m in zip(self.convs, self.mix):
            a, b = c(x).chunk(2, dim=1)
            y = m(torch.tanh(a) * torch.sigmoid(b))
            x = (x + y) * 0.5**0.5
            skip = skip + y
        return self.last(F.softplus(skip))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2), nn.Linear(16, 16),
                                    nn.SiLU(),
                                    nn.Linear(16, 3))
        self.register_buffer("scale", torch.tensor([1.0, 0.5, 2.0]))

    def forward(self, x):
        mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True, unbiased=False)
        return self.layers((x - mean) / (deviation + 1e-3)) * self.scale + x[:, :3].clamp(min=-1.0)


class Mixer(nn.Module):
    """Products by matmul and einsum, softmax, masks, and parameters of its own."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8) * 0.3)
        self.mix = nn.Parameter(torch.randn(4, 8, 8) * 0.3)
        self.gain = nn.Parameter(torch.ones(8))
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).bool(), persistent=False)
        self.norm = nn.LayerNorm(8, elementwise_affine=False)

    def forward(self, x):
        q = x @ self.w
        s = (q @ x.transpose(-2, -1)) / 8**0.5
        y = s.masked_fill(~self.mask, float("-1e9")).softmax(-1) @ x
        z = torch.einsum("nte,hef->nhtf", y, self.mix).amax(dim=1)
        return self.norm(z) * self.gain + F.pad(x[:, 1:], (0, 0, 0, 1)).flip(1)


class Depthwise(nn.Module):
    """Convolutions whose channels come last in between, as in ConvNeXt."""

    def __init__(self, c):
        super().__init__()
        self.dwconv = nn.Conv2d(c, c, 5, padding=2, groups=c)
        self.norm, self.pwconv1, self.pwconv2 = nn.LayerNorm(c, eps=1e-6), nn.Linear(c, 2 * c), nn.Linear(2 * c, c)
        self.gamma = nn.Parameter(0.1 * torch.ones(c))

    def forward(self, x):
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.blocks = nn.Sequential(*[Depthwise(8) for _ in range(2)])
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((-2, -1)))


class Windows(nn.Module):
    """Attention in windows with a table of biases and a mask that is written part by part."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.table = nn.Parameter(torch.randn(7, 2) * 0.5)
        self.register_buffer("index", torch.arange(4)[:, None] - torch.arange(4)[None] + 3)

    def forward(self, x):
        n, h, w, c = x.shape
        x = torch.roll(x, (-1, -1), (1, 2)).view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        mask = x.new_zeros(4, 4)
        mask[:2, 2:] = -4.0
        mask[3] = mask[3] + 1.5
        q, k, v = self.qkv(x).reshape(-1, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(4, 4, 2).permute(2, 0, 1)
        s = (q * 0.5) @ k.transpose(-2, -1) + bias + mask
        y = self.proj((s.softmax(-1) @ v).transpose(1, 2).reshape(-1, 4, c))
        return y.view(n, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)


class Grouped(nn.Module):
    """Attention with biases and grouped heads, then with a mask of truth values and no heads."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 4, bias=False), nn.Linear(8, 4)
        self.bias = nn.Parameter(torch.randn(4, 6, 6))
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).bool(), persistent=False)

    def forward(self, x):
        q, k, v = [f(x).unflatten(2, (-1, 2)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias[None], scale=0.6, enable_gqa=True)
        y = y.transpose(1, 2).flatten(2)
        return F.scaled_dot_product_attention(y, x, x, attn_mask=self.mask)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True), nn.Linear(12, 2)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


class Single(nn.Module):
    """Exported with one sample: the batch is an axis of size 1 next to others, which are merged, split and dropped."""

    def __init__(self):
        super().__init__()
        self.conv, self.q, self.out = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 4), nn.Linear(4 * 6 * 6, 3)
        self.token, self.place = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(1, 37, 4))

    def forward(self, x):
        h = self.conv(x) + x.repeat(1, 4, 1, 1)
        t = torch.cat([self.token.expand(x.shape[0], -1, -1), h.flatten(2).transpose(1, 2)], 1) + self.place
        n, k, e = t.shape
        q = self.q(t).reshape(n, k, 2, 2).permute(0, 2, 1, 3)
        a = nn.functional.scaled_dot_product_attention(q, q, q) + (q @ q.transpose(-1, -2)).softmax(-1) @ q
        t = a.transpose(1, 2).reshape(n * k, e).view(n, k, e)
        rows = h.unsqueeze(1).squeeze(1).view(n, -1)
        mask = torch.zeros(n, 4, 4)
        mask[:, 0:0] = 7  # a part without elements
        mask[:, 1:3, 2:] = 20
        return self.out(rows) + t.sum((1, 2)).unsqueeze(1) + mask.mean((1, 2)).unsqueeze(1)


class Cross(nn.Module):
    """A loop that reads a value made before it, and attention whose queries and keys come from other places."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.q, self.k, self.bias = nn.Conv1d(4, 8, 1), nn.Linear(5, 8), nn.Linear(8, 2, bias=False)
        self.register_buffer("table", torch.randn(1, 3, 12, 8))

    def forward(self, x, text):
        h, place = x, torch.sin(self.embed(torch.arange(6)))
        for block in self.blocks:
            h = torch.tanh(block(h * place + place))
        q = self.q(h.reshape(-1, 4, 12)).reshape(-1, 2, 4, 12).transpose(2, 3)
        k = self.k(text).reshape(-1, 3, 2, 4).transpose(1, 2)
        scores = self.bias(self.table).view(-1, 2).permute(1, 0).reshape(2, 12, 3)  # a buffer that begins with a 1
        y = nn.functional.scaled_dot_product_attention(q, k, k, scores[None]) + q[:, :, [-2]]
        return (y + nn.functional.scaled_dot_product_attention(q, k[:, :1], k[:, :1])).sum((1, 3))


class States(nn.Module):
    """Recurrent layers of all kinds: steps first, first states of their own, last states that are read."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(5, 4, 2, bidirectional=True)
        self.first = nn.Parameter(torch.randn(4, 1, 4))
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.bridge = nn.Linear(8, 6)
        self.rnn = nn.RNN(6, 3, 2, nonlinearity="relu", bias=False, batch_first=True)
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        y, h = self.gru(x.transpose(0, 1), self.first.expand(-1, x.shape[0], -1).contiguous())
        h = self.bridge(torch.cat([h[-2], h[-1]], dim=-1)).unsqueeze(0)
        y, (h, c) = self.lstm(y.transpose(0, 1), (h, torch.tanh(h)))
        y, last = self.rnn(y + c.transpose(0, 1))
        return self.out(y + last.sum(0).unsqueeze(1)) + h.mean(dim=(0, 2)).reshape(-1, 1, 1)


class SpectralConv(nn.Module):
    """A Fourier layer in two dimensions: complex weights of the lowest modes, of either sign along the first axis."""

    def __init__(self, c, height, width):
        super().__init__()
        self.low = nn.Parameter(torch.randn(c, c, height, width, dtype=torch.cfloat) * 0.3)
        self.high = nn.Parameter(torch.randn(c, c, height, width, dtype=torch.cfloat) * 0.3)

    def forward(self, x):
        h, w = self.low.shape[-2:]
        f = torch.fft.rfft2(x, norm="ortho")
        z = torch.zeros_like(f)
        z[:, :, :h, :w] = torch.einsum("bixy,ioxy->boxy", f[:, :, :h, :w], self.low)
        z[:, :, -h:, :w] = torch.einsum("bixy,ioxy->boxy", f[:, :, -h:, :w], self.high)
        return torch.fft.irfft2(z, s=x.shape[-2:], norm="ortho")


class FourierBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.spectral, self.skip = SpectralConv(c, 2, 3), nn.Conv2d(c, c, 1)

    def forward(self, x):
        return F.gelu(self.spectral(x) + self.skip(x))


class Fourier(nn.Module):
    """Two Fourier layers, and what else is done with complex numbers."""

    def __init__(self):
        super().__init__()
        self.lift, self.last = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 2, 1)
        self.blocks = nn.ModuleList([FourierBlock(4) for _ in range(2)])
        self.gain = nn.Parameter(torch.randn(4, 1, 6, 2))
        self.filter = nn.Parameter(torch.randn(6, 9))
        self.turn = nn.Parameter(torch.randn(9, dtype=torch.cfloat))

    def forward(self, x):
        x = self.lift(x)
        for block in self.blocks:
            x = block(x)
        z = torch.fft.fftshift(torch.fft.fftn(x, dim=(-2, -1), norm="forward"), dim=(-2,))
        z = z * torch.view_as_complex(self.gain).transpose(0, 1)[..., None] + 0.5 * z.conj() - z / 3
        z = z * self.filter * self.turn + torch.complex(x.roll(1, -1), -z.imag)
        z = torch.fft.ifft(torch.fft.ifftshift(z, dim=2), dim=3).flatten(2)
        y = torch.cat([z, z[..., :10]], -1).abs() + 1
        y = torch.fft.irfft(torch.fft.rfft(y, n=50), n=54).view(-1, 4, 6, 9)
        y = y + torch.view_as_real(z.mean(1, keepdim=True)).sum(-1).view(-1, 1, 6, 9)
        return self.last(y + x)


class Tied(nn.Module):
    """Weights that two places use, lists and dictionaries of parameters, buffers of several types."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(5, 8, bias=False), nn.Linear(8, 5)
        self.head.weight = nn.Parameter(torch.randn(5, 8) * 0.3)
        self.gains = nn.ParameterList([nn.Parameter(torch.randn(8)) for _ in range(3)])
        self.turns = nn.ParameterDict({"a": nn.Parameter(torch.randn(8, 8) * 0.3)})
        self.norm = nn.LayerNorm(8)
        self.register_buffer("places", torch.arange(6, dtype=torch.float32).reshape(6, 1) / 6 + torch.zeros(6, 8))
        self.register_buffer("order", torch.tensor([3, 1, 5, 0, 2, 4]), persistent=False)
        self.register_buffer("mask", torch.rand(6, 8) > 0.3)

    def forward(self, x):
        h = self.norm(self.embed(x)) + self.places
        for gain in self.gains:
            h = torch.tanh(self.norm(h * gain) @ self.turns["a"])
        h = torch.where(self.mask, h, 0.1)[:, self.order] @ self.head.weight.T
        return self.head(torch.sigmoid(self.embed(h)))


MODELS = {
    "tied": (Tied, [(2, 6, 5)]),
    "windows": (Windows, [(2, 4, 6, 8)]),
    "grouped": (Grouped, [(2, 6, 8)]),
    "recurrent": (Recurrent, [(2, 7, 5)]),
    "cross": (Cross, [(2, 6, 8), (2, 3, 5)]),
    "single": (Single, [(3, 1, 6, 6)]),
    "states": (States, [(2, 7, 5)]),
    "mlp": (Mlp, [(4, 6)]),
    "resnet": (ResNet, [(2, 3, 16, 16)]),
    "unet": (UNet, [(2, 2, 16, 16)]),
    "vit": (ViT, [(2, 3, 16, 16)]),
    "series": (Series, [(2, 2, 32)]),
    "mixer": (Mixer, [(2, 6, 8)]),
    "fourier": (Fourier, [(2, 2, 6, 9)]),
    "spectral": (lambda: SpectralConv(2, 2, 3), [(2, 2, 6, 9)]),
    "convnext": (ConvNext, [(2, 3, 8, 8)]),
}
