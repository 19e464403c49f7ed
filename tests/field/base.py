"""What the networks of this folder share. Each is the PyTorch form of models/field/NAME.dl: its arguments are the
model's, and so are the names of its inputs, targets and parameters."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Field(nn.Module):
    """forward(**inputs) is what the model predicts; loss(**batch) is what it trains by; batch(n) has n random samples.
    A test replaces `rand` by the numbers that our model draws."""
    rand = staticmethod(torch.rand)

    def loss(self, t, **inputs):
        return F.mse_loss(self(**inputs), t)

    def randn(self, *shape):
        first = self.rand(*shape)
        return (-2 * (1 - first).log()).sqrt() * (2 * math.pi * self.rand(*shape)).cos()


def folder(**parts):
    """A module that only holds others."""
    made = nn.Module()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def attend(q, k, v, mask=None, causal=False):
    """F.scaled_dot_product_attention, also in PyTorch 1."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.full(scores.shape[-2:], -math.inf, dtype=q.dtype).triu(1)
    return (scores if mask is None else scores + mask).softmax(-1) @ v


def heads_of(x, heads):
    """[N, T, E] as [N, heads, T, E / heads]."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)


def attend_heads(q, k, v, heads, **how):
    """Of [N, T, E] and [N, S, E], as the model language has it."""
    return attend(*(heads_of(x, heads) for x in (q, k, v)), **how).transpose(1, 2).flatten(2)


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        return self.proj(attend_heads(*self.qkv(x).chunk(3, -1), self.heads, mask=mask))


class Transformer(nn.Module):
    """A block of a vision transformer, by timm's names."""

    def __init__(self, width, heads, eps=1e-5):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
        self.attn, self.mlp = SelfAttention(width, heads), Mlp(width, 4 * width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))
