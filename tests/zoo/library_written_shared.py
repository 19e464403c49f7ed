"""The third list, continued: layers and modules that are applied several times, and tensors of one number."""
import torch
import torch.nn.functional as F
from torch import nn

from library_models import LIBRARIES
from library_written import Net, conv, written
import library_written_more  # noqa: F401


class Encoder(Net):
    """A block with running statistics, called for each of its inputs."""

    def __init__(self, c):
        super().__init__()
        self.layers(a=conv(3, c), norm=nn.BatchNorm2d(c), b=conv(c, c))

    def forward(self, x):
        y = F.relu(self.norm(self.a(x)))
        return y + self.b(y)


@written((2, 3, 8, 8), (2, 3, 8, 8))
class Siamese(Net):
    def __init__(self):
        super().__init__()
        self.layers(encoder=Encoder(4), out=nn.Linear(8, 2))

    def forward(self, x, z):
        a, b = self.encoder(x), self.encoder(z)
        return self.out(torch.cat([(a - b).abs().mean((2, 3)), (a * b).mean((2, 3))], 1))


@written((2, 3, 16, 16))
class Pyramid(Net):
    """One head for maps of several sizes."""

    def __init__(self):
        super().__init__()
        self.layers(stem=conv(3, 8), down=nn.Conv2d(8, 8, 3, 2, 1), norm=nn.GroupNorm(2, 8), head=nn.Conv2d(8, 3, 1),
                    act=nn.PReLU(8))

    def forward(self, x):
        x, found = self.stem(x), []
        for _ in range(3):
            found.append(self.head(self.act(self.norm(x))).flatten(2))
            x = self.down(x)
        return torch.cat(found, 2)


class Step(Net):
    """Two inputs, two results; what it reads besides is the same in all calls."""

    def __init__(self, e):
        super().__init__()
        self.layers(mix=nn.Linear(2 * e, e), norm=nn.LayerNorm(e), keep=nn.Linear(e, e))

    def forward(self, x, state):
        y = torch.tanh(self.mix(torch.cat([x, state], -1)))
        return self.norm(y + x), torch.sigmoid(self.keep(y)) * state


@written((2, 5, 6))
class Recursive(Net):
    """A block that is repeated with its own weights, and one norm along two axes."""

    def __init__(self):
        super().__init__()
        self.layers(step=Step(6), norm=nn.LayerNorm(6))

    def forward(self, x):
        state = self.norm(x)
        for _ in range(4):
            x, state = self.step(x, state)
        square = (x.transpose(1, 2) @ x).mean(1)
        return self.norm(x) + self.norm(state) + self.norm(square)[:, None]


class Branch(Net):
    def __init__(self, e):
        super().__init__()
        self.layers(a=nn.Linear(e, e), b=nn.Linear(e, e))

    def forward(self, x, twice=False):
        y = torch.tanh(self.a(x))
        return self.b(torch.tanh(self.a(y))) if twice else self.b(y) * 2


@written((2, 6))
class Branches(Net):
    """A module whose calls compute different things; a weight that a layer and a product read."""

    def __init__(self):
        super().__init__()
        self.layers(branch=Branch(6), tied=nn.Linear(6, 6))

    def forward(self, x):
        y = self.branch(self.tied(x))
        return F.linear(self.branch(y, twice=True), self.tied.weight.t())


OF_PARAMETERS = (
    lambda p: p.flip(0).flip(2), lambda p: p.roll(1, 0).roll(2, 2), lambda p: p.cumsum(1).cumsum(0),
    lambda p: p[:, 1:, ::2].exp(), lambda p: p.softmax(1).softmax(2), lambda p: F.pad(p, (1, 0, 0, 2)).tanh(),
    lambda p: p[:, [2, 0]].sin(), lambda p: p.amax(1).exp(), lambda p: p.repeat(4, 1, 1).relu(),
    lambda p: p.transpose(0, 2).sigmoid().flip(1), lambda p: p.reshape(6, 6).tanh().flip(1),
    lambda p: torch.cat([p, p.flip(1)], 1).abs(), lambda p: p.sort(dim=1)[0].flip(0), lambda p: p.tril().flip(0),
    lambda p: p.diff(dim=1).square().flip(2), lambda p: p.repeat_interleave(2, 1).cos(), lambda p: -p.unfold(2, 2, 1),
    lambda p: F.layer_norm(p, (4, )).flip(0), lambda p: p.std(1).flip(0), lambda p: torch.stack([p, p * 2], 1).flip(1),
    lambda p: p.norm(dim=2).flip(0), lambda p: p.clamp(-0.5, 0.5).flip(1), lambda p: torch.where(p > 0, p, 0.1).flip(1))


@written((2, 3))
class OfParameters(nn.Module):
    """Operations on tensors of parameters, which get their axes' names at the first use."""

    def __init__(self):
        super().__init__()
        self.p = nn.ParameterList([nn.Parameter(torch.randn(3, 3, 4)) for _ in OF_PARAMETERS])

    def forward(self, x):
        parts = [of(p) for of, p in zip(OF_PARAMETERS, self.p)]
        return x + sum((y * torch.linspace(0.5, 1, y.numel()).view(y.shape)).sum() for y in parts)


@written((2, 6), (2, ))
class Filled(Net):
    """Tensors of one number of the batch's size, and a passage through bytes."""

    def __init__(self):
        super().__init__()
        self.layers(time=nn.Linear(3, 6), out=nn.Linear(6, 2))

    def forward(self, x, time):
        time = time * torch.ones(x.shape[0]) + torch.full((x.shape[0], ), 0.5)
        angles = time[:, None] * torch.tensor([1.0, 0.3, 0.1])
        levels = ((torch.sigmoid(x) * 255).round().to(torch.uint8) / 255.0) * torch.zeros_like(x).add(2)
        return self.out(F.silu(self.time(torch.sin(angles)) * levels) + x)


@written((2, 5, 6, 4))
class ShiftedWindows(Net):
    """Attention in shifted windows of an image that is padded, with a mask for each window."""

    def __init__(self):
        super().__init__()
        self.layers(first=Windows(0), second=Windows(1), third=Windows(1))

    def forward(self, x):
        return self.third(self.second(self.first(x)))


class Windows(Net):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.layers(norm=nn.LayerNorm(4), attention=Attention())

    def forward(self, x):
        n, h, w, e = x.shape
        y = F.pad(self.norm(x), (0, 0, 0, w % 2, 0, h % 2))
        hp, wp = y.shape[1:3]
        mask = None
        if self.shift:
            y = torch.roll(y, (-1, -1), (1, 2))
            part = ((torch.arange(hp) >= hp - 1) * 2)[:, None] + (torch.arange(wp) >= wp - 1)[None]
            part = part.view(hp // 2, 2, wp // 2, 2).permute(0, 2, 1, 3).reshape(-1, 4)
            mask = torch.where(part[:, None] == part[:, :, None], 0.0, -100.0)
        y = y.view(n, hp // 2, 2, wp // 2, 2, e).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, e)
        y = self.attention(y, mask).view(n, hp // 2, wp // 2, 2, 2, e).permute(0, 1, 3, 2, 4, 5).reshape(n, hp, wp, e)
        if self.shift:
            y = torch.roll(y, (1, 1), (1, 2))
        return x + y[:, :h, :w]


class Attention(Net):
    """Its bias has a table of 9 rows; the windows are 6 for each sample."""

    def __init__(self):
        super().__init__()
        self.layers(qkv=nn.Linear(4, 12))
        self.table = nn.Parameter(torch.randn(9, 2))
        row, column = torch.arange(4) // 2, torch.arange(4) % 2
        self.register_buffer("index", (row[:, None] - row + 1) * 3 + column[:, None] - column + 1)

    def forward(self, x, mask):
        windows = x.shape[0]
        q, k, v = self.qkv(x).view(windows, 4, 3, 2, 2).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(4, 4, 2).permute(2, 0, 1)[None]
        if mask is not None:
            bias = bias + mask[:, None].repeat(windows // mask.shape[0], 1, 1, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(windows, 4, 4)


@written((3, 3, 8, 8), (3, 3, 8, 8))
class OneBatch(Net):
    """Two inputs and their mirror images go through one encoder as one batch, which is cut up again."""

    def __init__(self):
        super().__init__()
        self.layers(encoder=Encoder(4), out=nn.Linear(16, 2))

    def forward(self, x, z):
        maps = self.encoder(torch.cat([x, z, x.flip(3), z.flip(3)])).mean((2, 3))
        plain, mirrored = maps.chunk(2)
        a, b = plain.chunk(2)
        c, d = mirrored.view(2, len(x), -1).unbind(0)
        return self.out(torch.cat([a * b, c - d, a.sin() + d, maps[2 * len(x):3 * len(x)]], 1))


@written((2, 5, 4), (2, 3, 4))
class Continued(Net):
    """Recurrent layers that are called several times, with first states of other layers and of their own."""

    def __init__(self):
        super().__init__()
        self.layers(encoder=nn.GRU(4, 6, num_layers=2, batch_first=True), decoder=nn.LSTM(4, 6, batch_first=True),
                    back=nn.RNN(4, 3, bidirectional=True, bias=False), out=nn.Linear(6, 4))

    def forward(self, x, z):
        y, h = self.encoder(x)
        again, _ = self.encoder(z, h)
        state = h[-1:].contiguous(), torch.tanh(h[:1]).contiguous()
        outputs = [y.mean(1, keepdim=True) + again.sum(1, keepdim=True)]
        for k in range(3):
            a, state = self.decoder(z if k else x, state)
            outputs.append(a)
        both, ends = self.back(x.transpose(0, 1))
        more, _ = self.back(z.transpose(0, 1), ends)
        return self.out(torch.cat([*outputs, both.transpose(0, 1), more.transpose(0, 1)], 1))


# ---- one sample, writes by numbers, and numbers that are equal in one block alone ----

@written((1, 8, 8, 4))
class OneSample(Net):
    """A mask that is made of tensors of one sample, written into part by part, and one that takes up the sample."""

    def __init__(self):
        super().__init__()
        self.layers(norm=nn.LayerNorm(4), keys=nn.Linear(4, 4), head=nn.Linear(4, 3))

    def forward(self, x):
        n, h, w, e = x.shape
        parts, count = torch.zeros(1, h, w, 1), 0
        for rows in (slice(-2), slice(-2, -1), slice(-1, None)):
            for columns in (slice(-2), slice(-2, None)):
                parts[:, rows, columns, :] = count
                count += 1
        parts = parts.view(1, h // 2, 2, w // 2, 2, 1).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4)
        mask = parts[:, None] - parts[:, :, None]
        mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        y = self.norm(x).view(n, h // 2, 2, w // 2, 2, e).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, e)
        k = self.keys(y)
        scores = (y @ k.transpose(1, 2)).view(n, len(mask), 4, 4) + mask[None]
        y = (scores.view(-1, 4, 4).softmax(-1) @ k).view(n, h // 2, w // 2, 2, 2, e).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(n, h, w, e)
        wide = torch.zeros(1, h, w + 2, e)
        wide[:, :, 1:-1] = y
        return self.head(torch.cat([wide, torch.ones(1, h, 1, e).cumsum(1)], 2))


@written((2, 4, 12))
class Written(Net):
    """Writes where numbers say, in one dimension and in two in a row: whole, added to, and on zeros."""

    def __init__(self):
        super().__init__()
        self.layers(out=nn.Linear(6, 3))
        self.kernel = nn.Parameter(torch.randn(3))
        self.register_buffer("rows", torch.tensor([[2, 0], [1, 3]]))
        self.register_buffer("columns", torch.tensor([3, -1]))

    def forward(self, x):
        each = torch.arange(4)
        weight = x.new_zeros(4, 4, 3)
        weight[each, each] = self.kernel
        y = F.conv1d(x, weight, stride=2)
        y[:, self.rows, self.columns] = x[:, :2, :2].sin()
        y[:, each, each] += x[:, :, self.columns.view(2, 1)].sum((2, 3))
        y[:, :, self.columns] = x[:, :, 5:6].cos()
        return self.out(F.pad(y, (0, 1)))


class Stage(Net):
    def __init__(self, a, b, c):
        super().__init__()
        self.layers(parts=nn.Sequential(Widened(a, b), Widened(b, b), Widened(b, c), Widened(c, c)))

    def forward(self, x):
        return self.parts(x)


class Widened(Net):
    def __init__(self, a, b):
        super().__init__()
        self.layers(each=nn.Conv1d(a, a, 3, padding=1, groups=a), mix=nn.Conv1d(a, b, 1))

    def forward(self, x):
        return F.relu(self.mix(F.relu(self.each(x))))


@written((2, 2, 6))
class Coincidence(Net):
    """Blocks of one class, in the first of which numbers are equal that differ in the others."""

    def __init__(self):
        super().__init__()
        self.layers(a=Stage(2, 4, 4), b=Stage(4, 4, 6), c=Stage(6, 5, 7))

    def forward(self, x):
        return self.c(self.b(self.a(x)))


# ---- Core ATen: what run_decompositions leaves, and ops of its list ----

@written((2, 4, 12))
class Decomposed(Net):
    """Norms, softmax, pads, Fourier transforms and a buffer's statistics as Core ATen says them."""

    decomposed = True

    def __init__(self):
        super().__init__()
        self.layers(a=nn.Conv1d(4, 6, 3, padding=1), norm=nn.BatchNorm1d(6), group=nn.GroupNorm(2, 6),
                    last=nn.LayerNorm(12), instance=nn.InstanceNorm1d(1, affine=True),
                    up=nn.ConvTranspose1d(6, 4, 2, stride=2), out=nn.Linear(24, 3))
        self.modes = nn.Parameter(torch.randn(6, 5, 2))

    def forward(self, x):
        h = self.group(F.relu(self.norm(self.a(x)))) + self.instance(F.pad(x, (2, 1), mode="reflect")[:, :1, 1:13])
        f = torch.fft.rfft(self.last(h), norm="ortho")
        kept = torch.zeros_like(f)
        kept[..., :5] = f[..., :5] * torch.view_as_complex(self.modes)
        h = h + torch.fft.irfft(kept, n=12, norm="ortho") + F.pad(x, (1, 1), mode="circular")[:, :1, 1:-1]
        y = self.up(F.dropout(h.log_softmax(1), 0.0)).softmax(-1)
        return self.out(y) + F.adaptive_avg_pool2d(h[:, None], (1, 3))[:, 0]


@written((3, 4))
class Kept(Net):
    """A mean that the module keeps, of which the archive states the new content."""

    decomposed = True

    def __init__(self):
        super().__init__()
        self.layers(a=nn.Linear(4, 3))
        self.register_buffer("kept", torch.zeros(4))

    def forward(self, x):
        self.kept.mul_(0.9).add_(0.1 * x.mean(0).detach())
        return self.a(x - self.kept)


@written((3, 6, 3))
class CoreOps(Net):
    """Reductions by numbers, writes that give a new tensor, vector products, and functions of the list."""

    def __init__(self):
        super().__init__()
        self.layers(a=nn.Linear(3, 3))
        self.register_buffer("places", torch.tensor([0, 3, 1, 3, 3, 0]))

    def forward(self, x):
        h = self.a(x)
        index = self.places[None, :, None].expand_as(h)
        y = h
        for how in ("sum", "mean", "amax", "amin"):
            y = y + x.scatter_reduce(1, index, h, how, include_self=False)
            y = y * 0.5 + x.scatter_reduce(1, index, h, how)
        y = y + x.index_reduce(1, self.places, h, "amax")
        y = torch.slice_scatter(y, h[:, :2], dim=1, start=1, end=5, step=2)
        y = torch.select_scatter(y, h[:, 0], 1, 4) + torch.linalg.cross(x, h)
        y = y + torch.asinh(h) + torch.acosh(1.5 + h * h) + torch.logaddexp(x, h) + torch.rad2deg(h) * 0.01
        return y + torch.float_power(h.abs() + 1, 1.5).to(h.dtype) + F.channel_shuffle(y[:, :, None], 3).squeeze(2)


WRITTEN = {"written": list(LIBRARIES["written"])}
