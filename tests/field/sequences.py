"""Sequences: words and days."""
import torch
import torch.nn.functional as F
from torch import nn

from base import Field, attend, attend_heads, folder, heads_of


class Words(Field):
    """Scores of the next word."""
    length, vocabulary = 0, 0

    def batch(self, n):
        return {name: torch.randint(self.vocabulary, (n, self.length)) for name in ("x", "t")}

    def loss(self, x, t):
        return F.cross_entropy(self(x).flatten(0, 1), t.flatten())


class NanoGPT(Words):
    def __init__(self, length=256, vocabulary=65, layers=6, heads=6, width=384):
        super().__init__()
        self.length, self.vocabulary, self.heads = length, vocabulary, heads
        blocks = [folder(ln_1=nn.LayerNorm(width), ln_2=nn.LayerNorm(width),
                         attn=folder(c_attn=nn.Linear(width, 3 * width), c_proj=nn.Linear(width, width)),
                         mlp=folder(c_fc=nn.Linear(width, 4 * width), c_proj=nn.Linear(4 * width, width)))
                  for _ in range(layers)]
        self.transformer = folder(wte=nn.Embedding(vocabulary, width), wpe=nn.Embedding(length, width),
                                  h=nn.ModuleList(blocks), ln_f=nn.LayerNorm(width))
        for p in self.transformer.wte, self.transformer.wpe:
            nn.init.normal_(p.weight, std=0.02)

    def forward(self, x):
        of = self.transformer
        h = of.wte(x) + of.wpe.weight
        for b in of.h:
            q, k, v = b.attn.c_attn(b.ln_1(h)).chunk(3, -1)
            h = h + b.attn.c_proj(attend_heads(q, k, v, self.heads, causal=True))
            h = h + b.mlp.c_proj(F.gelu(b.mlp.c_fc(b.ln_2(h))))
        return of.ln_f(h) @ of.wte.weight.T


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight


def without_bias(i, o):
    return nn.Linear(i, o, bias=False)


class Rotary(Words):
    def __init__(self, length=256, vocabulary=512, layers=6, heads=6, kv_heads=6, width=288, hidden=768, base=10000.0):
        super().__init__()
        self.length, self.vocabulary, self.heads, self.kv_heads = length, vocabulary, heads, kv_heads
        self.each, self.base, few = width // heads, base, width // heads * kv_heads
        self.tok_embeddings, self.output = nn.Embedding(vocabulary, width), without_bias(width, vocabulary)
        self.norm = RmsNorm(width)
        self.layers = nn.ModuleList(
            folder(attention_norm=RmsNorm(width), ffn_norm=RmsNorm(width),
                   attention=folder(wq=without_bias(width, width), wk=without_bias(width, few),
                                    wv=without_bias(width, few), wo=without_bias(width, width)),
                   feed_forward=folder(w1=without_bias(width, hidden), w3=without_bias(width, hidden),
                                       w2=without_bias(hidden, width))) for _ in range(layers))

    def turned(self, x, turns):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * turns).flatten(-2)

    def forward(self, x):
        h = self.tok_embeddings(x)
        rates = self.base**(-torch.arange(0, self.each, 2, dtype=h.dtype) / self.each)
        angles = torch.arange(self.length, dtype=h.dtype)[:, None] * rates
        turns = torch.polar(torch.ones_like(angles), angles)
        for b in self.layers:
            a, y = b.attention, b.attention_norm(h)
            q, k = (self.turned(heads_of(p, n), turns) for p, n in ((a.wq(y), self.heads), (a.wk(y), self.kv_heads)))
            k, v = (p.repeat_interleave(self.heads // self.kv_heads, 1) for p in (k, heads_of(a.wv(y), self.kv_heads)))
            h = h + a.wo(attend(q, k, v, causal=True).transpose(1, 2).flatten(2))
            f, y = b.feed_forward, b.ffn_norm(h)
            h = h + f.w2(F.silu(f.w1(y)) * f.w3(y))
        return self.output(self.norm(h))


class Mixer(nn.Module):
    def __init__(self, width, states, rank, taps):
        super().__init__()
        inner = 2 * width
        self.in_proj, self.out_proj = without_bias(width, 2 * inner), without_bias(inner, width)
        self.conv1d = nn.Conv1d(inner, inner, taps, padding=taps - 1, groups=inner)
        self.x_proj, self.dt_proj = without_bias(inner, rank + 2 * states), nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))

    def forward(self, x):
        u, gate = self.in_proj(x).chunk(2, -1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[:, :, :x.shape[1]].transpose(1, 2))
        rank, states = self.dt_proj.in_features, self.A_log.shape[1]
        dt, b, c = self.x_proj(u).split([rank, states, states], -1)
        dt = F.softplus(self.dt_proj(dt))
        h, steps = 0, []
        for t in range(x.shape[1]):
            keep = torch.exp(-dt[:, t, :, None] * self.A_log.exp())
            h = keep * h + (dt[:, t] * u[:, t])[:, :, None] * b[:, t, None]
            steps.append((h * c[:, t, None]).sum(-1))
        return self.out_proj((torch.stack(steps, 1) + self.D * u) * F.silu(gate))


class Mamba(Words):
    def __init__(self, width=64, layers=4, states=16, taps=4, vocabulary=256, length=256):
        super().__init__()
        self.length, self.vocabulary = length, vocabulary
        self.backbone = folder(
            embedding=nn.Embedding(vocabulary, width), norm_f=RmsNorm(width),
            layers=nn.ModuleList(folder(norm=RmsNorm(width), mixer=Mixer(width, states, max(width // 16, 1), taps))
                                 for _ in range(layers)))
        self.lm_head = without_bias(width, vocabulary)

    def forward(self, x):
        h = self.backbone.embedding(x)
        for layer in self.backbone.layers:
            h = h + layer.mixer(layer.norm(h))
        return self.lm_head(self.backbone.norm_f(h))


class LSTM(Field):
    """Without dropout."""

    def __init__(self, days=365, forcings=5, attributes=27, hidden=256, layers=1):
        super().__init__()
        self.days, self.forcings, self.attributes = days, forcings, attributes
        self.lstm = nn.LSTM(forcings + attributes, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def batch(self, n):
        return {"x": torch.randn(n, self.days, self.forcings), "static": torch.randn(n, self.attributes),
                "t": torch.randn(n, 1)}

    def forward(self, x, static):
        steps = torch.cat([x, static[:, None].expand(-1, x.shape[1], -1)], -1)
        return self.head(self.lstm(steps)[0][:, -1])
