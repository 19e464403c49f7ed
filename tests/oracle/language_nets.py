"""Models of check_language.py with shared layers: each in the language and in PyTorch."""
from language_runs import F, N, inf
from oracle_tools import torch

# Shared layers: whole models for five steps of Adam.
class Siamese(torch.nn.Module):
    """One encoder, with batch norm, over three inputs of two lengths; a list of layers; a parameter of the module's
    own."""
    text = """
module Enc(c)(x):
    param gain: [C=2] ~ normal(1, 0.1)
    return x * gain |> conv(c, 3, pad=1, bias=false) @conv |> batch_norm @bn |> relu |> conv(c, 1) @out
module Twice(f)(x): return x |> f |> f
model Siamese():
    input  a: f32[N, C=2, T=8]
    input  b: f32[N, C=2, S=11]
    input  c: f32[N, C=2, T]
    enc = Enc(6) @enc
    mix = linear(6)
    last = [conv(6, 1) @last.{i} for i in range(2)]
    ea = a |> enc
    eb = b |> enc
    ec = enc(c)
    u = mean(ea, over=T) |> Twice(mix)
    v = mean(eb, over=S) |> mix
    w = mean(ec |> last[0] |> last[1] |> last[0], over=T)
    output u
    loss = mean((u - v)**2) + mean((v - w)**2) + 0.01 * sum_squares(conv.weight)
"""
    shapes = {"a": (N, 2, 8), "b": (N, 2, 11), "c": (N, 2, 8)}

    def __init__(self):
        super().__init__()
        self.enc = torch.nn.Module()
        self.enc.gain = torch.nn.Parameter(torch.randn(2))
        self.enc.conv, self.enc.bn, self.enc.out = torch.nn.Conv1d(
            2, 6, 3, padding=1, bias=False), torch.nn.BatchNorm1d(6), torch.nn.Conv1d(6, 6, 1)
        self.mix = torch.nn.Linear(6, 6)
        self.last = torch.nn.ModuleList([torch.nn.Conv1d(6, 6, 1) for _ in range(2)])

    def encode(self, x):
        return self.enc.out(torch.relu(self.enc.bn(self.enc.conv(x * self.enc.gain[:, None]))))

    def forward(self, a, b, c):
        ea, eb, ec = self.encode(a), self.encode(b), self.encode(c)
        u, v = self.mix(self.mix(ea.mean(2))), self.mix(eb.mean(2))
        w = self.last[0](self.last[1](self.last[0](ec))).mean(2)
        convolutions = [self.enc.conv, self.enc.out, *self.last]
        return ((u - v) ** 2).mean() + ((v - w) ** 2).mean() + 0.01 * sum((m.weight**2).sum() for m in convolutions)


class Recurrent(torch.nn.Module):
    """A cell applied step by step (a recurrent net), whose two layers are shared by all steps."""
    text = """
module Cell(width)(x: [N, I], h: [N, H]):
    z = cat(x as [N, H], h, over=H)
    g = z |> linear(width) @gate |> sigmoid
    return g * h + (1 - g) * (z |> linear(width) @new |> tanh)
model Recurrent():
    input  x: f32[N, T=6, I=3]
    target t: f32[N, O=2]
    cell = Cell(5) @cell
    h = expand(0, over=N, H=5)
    for i in range(6): h = cell(x[T=i], h)
    y = h |> linear(2) as [N, O]
    output y
    loss = smooth_l1_loss(y, t, beta=0.5)
"""
    shapes = {"x": (N, 6, 3), "t": (N, 2)}

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Module()
        self.cell.gate, self.cell.new, self.y = torch.nn.Linear(8, 5), torch.nn.Linear(8, 5), torch.nn.Linear(5, 2)

    def forward(self, x, t):
        h = torch.zeros(N, 5, dtype=x.dtype)
        for i in range(6):
            z = torch.cat([x[:, i], h], 1)
            g = torch.sigmoid(self.cell.gate(z))
            h = g * h + (1 - g) * torch.tanh(self.cell.new(z))
        return F.smooth_l1_loss(self.y(h), t, beta=0.5)


class Forecast(torch.nn.Module):
    """A GRU cell unrolled over time, next to PyTorch's own."""
    text = """
module GRU(w)(x: [N, F], h: [N, H]):
    gx = x |> linear(3*w) @ih
    gh = h |> linear(3*w) @hh as [N, F]
    r = sigmoid(gx[F=0:w] + gh[F=0:w])
    z = sigmoid(gx[F=w:2*w] + gh[F=w:2*w])
    n = tanh(gx[F=2*w:3*w] + r * gh[F=2*w:3*w])
    return ((1 - z) * n + z * (h as [N, F])) as [N, H]
model Forecast(w=8):
    input  x: f32[N, T=5, F=3]
    target t: f32[N, F=3]
    gru = GRU(w)
    h = expand(0, over=N, H=w)
    for i in range(5): h = gru(x[T=i], h)
    y = h |> linear(3) @head as [N, F]
    output y
    loss = huber_loss(y, t, delta=0.7)
"""
    shapes = {"x": (N, 5, 3), "t": (N, 3)}
    names = {"gru.weight_ih": "gru.ih.weight", "gru.weight_hh": "gru.hh.weight", "gru.bias_ih": "gru.ih.bias",
             "gru.bias_hh": "gru.hh.bias"}

    def __init__(self):
        super().__init__()
        self.gru, self.head = torch.nn.GRUCell(3, 8), torch.nn.Linear(8, 3)

    def forward(self, x, t):
        h = torch.zeros(N, 8, dtype=x.dtype)
        for i in range(5):
            h = self.gru(x[:, i], h)
        return F.huber_loss(self.head(h), t, delta=0.7)


class Tied(torch.nn.Module):
    """The first layer's weight is the last one's, too; the weights of a module are decayed."""
    text = """
module Body(w)(x): return x |> linear(w) @a |> gelu |> linear(w) @b
model Tied():
    input  x: f32[N, V=7]
    target t: i32[N]
    embed = linear(6, bias=false)
    body = Body(6)
    h = x |> embed as [N, E] |> body
    y = sum(h * (embed.weight as [E, V]), over=E)
    output y
    loss = cross_entropy(y, t) + 0.01 * sum_squares(body.weight)
"""
    shapes = {"x": (N, 7), "t": (N,)}
    labels = staticmethod(lambda shape: torch.randint(0, 7, shape, dtype=torch.int32))

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.embed, self.body = nn.Linear(7, 6, bias=False), nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 6)})

    def forward(self, x, t):
        h = self.body["b"](F.gelu(self.body["a"](self.embed(x))))
        return F.cross_entropy(F.linear(h, self.embed.weight.t()),
                               t.long()) + 0.01 * sum((v.weight**2).sum() for v in self.body.values())


class SimSiam(torch.nn.Module):
    """Two views, an encoder and a predictor for both, no gradient into the targets (Chen and He 2020)."""
    text = """
module Encoder(w)(x):
    y = x |> conv(w, 3, stride=2, pad=1, bias=false) @0 |> batch_norm @1 |> relu \
        |> conv(2*w, 3, stride=2, pad=1, bias=false) @3 |> batch_norm @4
    return mean(relu(y), over=[H, W]) |> linear(4*w) @fc
module Predictor(hidden)(z): return z |> linear(hidden) @0 |> relu |> linear(z.C) @2
cosine(p, z) = mean(sum(p * z, over=C) / (norm(p, over=C) * norm(z, over=C)))
model SimSiam(w=8):
    input a: f32[N, C=3, H=16, W=16]
    input b: f32[N, C=3, H=16, W=16]
    encoder = Encoder(w)
    predictor = Predictor(16)
    z = [a |> encoder, b |> encoder]
    p = [v |> predictor for v in z]
    output z[0]
    loss = -0.5 * (cosine(p[0], stop_gradient(z[1])) + cosine(p[1], stop_gradient(z[0])))
    metric collapse = mean(std(z[0], over=N))
"""
    shapes = {"a": (N, 3, 16, 16), "b": (N, 3, 16, 16)}

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                     nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.encoder.add_module("fc", nn.Linear(16, 32))
        self.predictor = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32))

    def encode(self, x):
        for layer in list(self.encoder)[:6]:
            x = layer(x)
        return self.encoder.fc(x.mean((2, 3)))

    def forward(self, a, b):
        za, zb = self.encode(a), self.encode(b)
        pa, pb = self.predictor(za), self.predictor(zb)
        return -0.5 * (F.cosine_similarity(pa, zb.detach()).mean() + F.cosine_similarity(pb, za.detach()).mean())


class Segment(torch.nn.Module):
    """Weighted cross-entropy with unlabelled pixels, and a soft Dice loss by one_hot."""
    text = """
module Double(c)(x): return x |> conv(c, 3, pad=1) @0 |> group_norm(2) @1 |> relu
model Segment(k=4):
    input  x: f32[N, C=1, H=16, W=16]
    target t: i32[N, H=16, W=16]
    y = x |> Double(8) @a |> Double(8) @b |> conv(k, 1) @out
    p = softmax(y, over=C)
    hot = one_hot(t, C=k)
    both = sum(p * hot, over=[N, H, W])
    dice = 1 - mean((2 * both + 1) / (sum(p, over=[N, H, W]) + sum(hot, over=[N, H, W]) + 1))
    output y
    loss = cross_entropy(y, t, weight=([0.2, 1, 1, 2] as [C]), ignore_index=255) + dice
"""
    shapes = {"x": (N, 1, 16, 16), "t": (N, 16, 16)}

    @staticmethod
    def labels(shape):
        t = torch.randint(0, 4, shape, dtype=torch.int32)
        return torch.where(torch.rand(shape) < 0.2, torch.tensor(255, dtype=torch.int32), t)

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.a = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU())
        self.out = nn.Conv2d(8, 4, 1)

    def forward(self, x, t):
        y, t = self.out(self.b(self.a(x))), t.long()
        hot = torch.stack([(t == i).to(x.dtype) for i in range(4)], 1)  # of no class where unlabelled
        p = torch.softmax(y, 1)
        dice = 1 - ((2 * (p * hot).sum((0, 2, 3)) + 1) / (p.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + 1)).mean()
        return F.cross_entropy(y, t, weight=torch.tensor([0.2, 1, 1, 2]).to(x.dtype), ignore_index=255) + dice


class Penalised(torch.nn.Module):
    """Sums of squares by kind of parameter: weights and biases of every kind of layer, each kind by a factor of its
    own; what is made after the sum is not in it."""
    text = """
model Penalised():
    input  n: i32[N]
    input  x: f32[N, C=4, T=6]
    target t: f32[N, C=3]
    param gain: [C=3] ~ normal(1, 0.1)
    h = x |> conv(5, 3) @c1 |> batch_norm @bn |> conv(5, 1) @c2 |> conv_transpose(2, 3) @up
    early = sum_squares(conv.weight)
    h = h |> group_norm(1) @gn |> conv(2, 1) @c3 |> layer_norm @ln |> instance_norm(affine=true) @inn
    e = n |> embedding(7, 3) @emb as [N, C]
    y = (mean(h, over=T) |> linear(3) @fc) * gain + e
    output y
    loss = mean((y - t)**2) + 0.11 * early + 0.07 * sum_squares(conv.weight, linear.weight, gain)
    loss += 0.13 * sum_squares(conv_transpose.weight) + 0.17 * sum_squares(conv.bias, linear.bias, conv_transpose.bias)
    loss += 0.19 * sum_squares(batch_norm.weight, layer_norm.weight) + 0.23 * sum_squares(group_norm.weight, \
        instance_norm.weight)
    loss += 0.29 * sum_squares(batch_norm.bias, layer_norm.bias, group_norm.bias, instance_norm.bias) \
        + 0.31 * sum_squares(embedding.weight)
    metric size = sqrt(sum_squares([conv.weight, [gain]], embedding.weight))
"""
    shapes = {"n": (N,), "x": (N, 4, 6), "t": (N, 3)}
    labelled = "n"
    labels = staticmethod(lambda shape: torch.randint(0, 7, shape, dtype=torch.int32))

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.c1, self.bn, self.c2, self.up = nn.Conv1d(4, 5,
                                                       3), nn.BatchNorm1d(5), nn.Conv1d(5, 5,
                                                                                        1), nn.ConvTranspose1d(5, 2, 3)
        self.gn, self.c3, self.ln, self.inn = nn.GroupNorm(1, 2), nn.Conv1d(2, 2,
                                                                            1), nn.LayerNorm(6), nn.InstanceNorm1d(
                                                                                2, affine=True)
        self.emb, self.fc, self.gain = nn.Embedding(7, 3), nn.Linear(2, 3), nn.Parameter(torch.randn(3))
        for layer in self.bn, self.gn, self.ln, self.inn:  # not at 1 and 0
            nn.init.normal_(layer.weight), nn.init.normal_(layer.bias)

    def squares(self, *names):
        return sum((p**2).sum() for k, p in self.named_parameters() if k in names)

    def forward(self, n, x, t):
        h = self.inn(self.ln(self.c3(self.gn(self.up(self.c2(self.bn(self.c1(x))))))))
        y = self.fc(h.mean(2)) * self.gain + self.emb(n.long())
        kinds = {0.11: "c1.weight c2.weight", 0.07: "c1.weight c2.weight c3.weight fc.weight gain", 0.13: "up.weight",
                 0.17: "c1.bias c2.bias c3.bias fc.bias up.bias", 0.19: "bn.weight ln.weight",
                 0.23: "gn.weight inn.weight",
                 0.29: "bn.bias ln.bias gn.bias inn.bias", 0.31: "emb.weight"}
        self.metrics = {"size": self.squares("c1.weight", "c2.weight", "c3.weight", "gain", "emb.weight").sqrt().item()}
        return ((y - t) ** 2).mean() + sum(factor * self.squares(*names.split()) for factor, names in kinds.items())


class Doubles(torch.nn.Module):
    """Layers that read f64: their parameters, and all that is made of them, are so, too."""
    text = """
model Doubles():
    input  x: f64[N, C=4, D=3, H=6, W=5]
    input  s: f64[N, T=5, E=12]
    target t: f64[N, O=3]
    h = x |> conv(6, [1, 2, 3], stride=[1, 2, 1], pad=[0, 1, 1], groups=2) @c |> batch_norm @bn |> relu
    h = mean(h, over=D) |> conv_transpose(4, [2, 3], stride=[2, 1], groups=2, dilation=[1, 2]) @up |> group_norm(2) @gn
    a = s |> layer_norm @ln
    a = attention(a |> linear(12) @q, a |> linear(12) @k, a |> linear(12) @v, 3, causal=true)
    y = (cat(mean(h, over=[H, W]) as [N, F], mean(a, over=T) as [N, F], over=F) |> linear(3) @fc) as [N, O]
    output y
    loss = mean((y - t)**2)
"""
    dtype = torch.float64
    shapes = {"x": (N, 4, 3, 6, 5), "s": (N, 5, 12), "t": (N, 3)}

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.c, self.bn, self.gn = nn.Conv3d(4, 6, (1, 2, 3), (1, 2, 1), (0, 1, 1),
                                             groups=2), nn.BatchNorm3d(6), nn.GroupNorm(2, 4)
        self.up = nn.ConvTranspose2d(6, 4, (2, 3), (2, 1), groups=2, dilation=(1, 2))
        self.ln, self.q, self.k, self.v, self.fc = nn.LayerNorm(12), nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(
            12, 12), nn.Linear(16, 3)

    def forward(self, x, s, t):
        h = self.gn(self.up(torch.relu(self.bn(self.c(x))).mean(2)))
        s = self.ln(s)
        q, k, v = (f(s).reshape(N, 5, 3, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = (q @ k.transpose(2, 3) / 2).masked_fill(torch.ones(5, 5).tril() == 0, -inf)
        a = (torch.softmax(scores, 3) @ v).transpose(1, 2).reshape(N, 5, 12)
        return ((self.fc(torch.cat([h.mean((2, 3)), a.mean(1)], 1)) - t) ** 2).mean()


def ours(net, name):
    return getattr(net, "names", {}).get(name, name)
