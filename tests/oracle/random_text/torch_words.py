"""PyTorch's side of a random model: functions that its text calls, written from PyTorch alone.

Axes are named in texts of theirs ("N C W"), as PyTorch goes by places.
"""
import torch

F = torch.nn.functional


def to(x, have, want):
    """x, whose axes are `have`, with the axes `want`: permuted, and of size 1 where it has none."""
    have, want = have.split(), want.split()
    x = x.permute([have.index(a) for a in want if a in have])
    return x[tuple(slice(None) if a in have else None for a in want)]


def gradient(y, x):
    g = torch.autograd.grad(y, x, create_graph=True, allow_unused=True)[0] if y.requires_grad else None
    return torch.zeros_like(x) if g is None else g


def lengths(x, dim):
    return torch.linalg.vector_norm(x, dim=dim, keepdim=True)


def channels(v, rank):
    """Weights by channel, for the second of `rank` axes."""
    return v.reshape([1, -1] + [1] * (rank - 2))


def standardise(x, dims, eps):
    """By its formula: torch 1.13's own norms have second derivatives that are not symmetric."""
    d = x - x.mean(dims, keepdim=True)
    return d / (d.square().mean(dims, keepdim=True) + eps).sqrt()


def group_norm(x, groups, eps):
    y = x.reshape(x.shape[0], groups, -1)
    return standardise(y, 2, eps).reshape(x.shape)


def batch_norm(x, P, R, name, momentum, eps):
    """momentum: Keras', the share of the old statistics that is kept."""
    dims, count = [0, *range(2, x.dim())], x.numel() // x.shape[1]
    for what, now in (("mean", x.mean(dims)), ("var", x.var(dims, unbiased=count > 1))):
        key = f"{name}.running_{what}"
        R[key] = momentum * R[key] + (1 - momentum) * now.detach()
    return standardise(x, dims, eps) * channels(P[name + ".weight"], x.dim()) + channels(P[name + ".bias"], x.dim())


def attend(q, k, v, heads, kv_heads=None, causal=False, mask=None, bias=None):
    """scaled_dot_product_attention, written out. mask, bias: of axes N, heads, T, S."""
    kv_heads = kv_heads or heads
    split = lambda x, n: x.reshape(x.shape[0], x.shape[1], n, -1).transpose(1, 2)
    q, k, v = split(q, heads), split(k, kv_heads), split(v, kv_heads)
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) / q.shape[3]**0.5
    if bias is not None:
        scores = scores + bias
    seen = torch.ones(scores.shape, dtype=torch.bool)
    if causal:
        seen = seen.tril()
    if mask is not None:
        seen = seen & mask
    shares = scores.masked_fill(~seen, -float("inf")).softmax(3)
    return (shares.masked_fill(~seen, 0) @ v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


def recurrent(kind, x, P, name, hidden, layers=1, bidirectional=False, bias=True, h0=None, c0=None, states=False,
              **how):
    """torch.nn.LSTM, GRU and RNN by their functions on given weights: all steps, and the last states."""
    flat = []
    for layer in range(layers):
        for end in ["", "_reverse"][:1 + bidirectional]:
            for part in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"][:4 if bias else 2]:
                flat.append(P[f"{name}.{part}_l{layer}{end}"])
    zeros = x.new_zeros(layers * (1 + bidirectional), x.shape[0], hidden)
    first = zeros if h0 is None else h0
    f = {"lstm": torch.lstm, "gru": torch.gru, "rnn": torch.rnn_relu if how else torch.rnn_tanh}[kind]
    first = (first, zeros if c0 is None else c0) if kind == "lstm" else first
    y = f(x, first, flat, bias, layers, 0.0, False, bidirectional, True)
    return y if states else y[0]


def scan(a, b, dim, reverse):
    """h[t] = a[t] h[t-1] + b[t], from h = b."""
    a, b = torch.broadcast_tensors(torch.as_tensor(a, dtype=b.dtype) if not torch.is_tensor(a) else a, b)
    steps, h = [], None
    order = range(b.shape[dim])
    for t in reversed(order) if reverse else order:
        h = b.select(dim, t) if h is None else a.select(dim, t) * h + b.select(dim, t)
        steps.append(h)
    return torch.stack(steps[::-1] if reverse else steps, dim)


def cumulative(x, dim, product, reverse, exclusive):
    x = x.flip(dim) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(dim, 0, 1), float(product))
        x = torch.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
    y = x.cumprod(dim) if product else x.cumsum(dim)
    return y.flip(dim) if reverse else y


def segments(x, numbers, dim, count, how):
    """x summed (averaged, ...) along dim by numbers of that axis; numbers outside are left out. The result's new axis
    stands there."""
    parts = []
    for k in range(count):
        at = (numbers == k).nonzero()[:, 0]
        y = x.index_select(dim, at)
        if len(at) == 0:
            parts.append(torch.zeros_like(x.select(dim, 0)) + 0 * x.sum(dim))
        else:
            parts.append({"sum": y.sum, "mean": y.mean, "max": y.amax, "min": y.amin}[how](dim))
    return torch.stack(parts, dim)


shaken = [0.0]  # how far a transform's numbers are moved at random; of those that are 0 but for rounding, too


def pairs(z):
    x = torch.stack([z.real, z.imag], -1)
    return x + shaken[0] * torch.randn(x.shape, dtype=x.dtype) if shaken[0] else x


def whole(x):
    return torch.complex(x[..., 0], x[..., 1])


def low_modes(z, m, dim):
    """The modes that modes=m keeps along a complex axis."""
    return torch.cat([z.narrow(dim, 0, m), z.narrow(dim, z.shape[dim] - m, m)], dim)


def widened(z, m, n, dim):
    """The inverse of low_modes: zeros between."""
    gap = list(z.shape)
    gap[dim] = n - 2 * m
    return torch.cat([z.narrow(dim, 0, m), z.new_zeros(gap), z.narrow(dim, m, m)], dim)


def pad_one(x, dim, before, after, mode):
    """F.pad along one axis."""
    x = x.movedim(dim, -1)
    y = F.pad(x.reshape(1, -1, x.shape[-1]), (before, after), mode=mode)
    return y.reshape(*x.shape[:-1], -1).movedim(-1, dim)


def reduced(x, reduction):
    return x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x


def focal(x, t, alpha, gamma):
    """torchvision.ops.sigmoid_focal_loss, without its reduction."""
    p, ce = torch.sigmoid(x), F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return ce * (1 - (p * t + (1 - p) * (1 - t)))**gamma * (alpha * t + (1 - alpha) * (1 - t))


def overlap(p, t, dims, alpha, beta, smooth):
    """The Tversky loss (Salehi et al. 2017) of each element left by `dims`, averaged."""
    hit, false_alarm, miss = (v.sum(dims) for v in (p * t, p * (1 - t), (1 - p) * t))
    return (1 - (hit + smooth) / (hit + alpha * false_alarm + beta * miss + smooth)).mean()


def crps(mean, t, deviation):
    """properscoring's crps_gaussian (Gneiting et al. 2005)."""
    z, normal = (t - mean) / deviation, torch.distributions.Normal(0.0, 1.0)
    return deviation * (z * (2 * normal.cdf(z) - 1) + 2 * normal.log_prob(z).exp() - torch.pi**-0.5)


def rms(x, dim, eps):
    return x / (x.square().mean(dim, keepdim=True) + eps).sqrt()


def quantile(x, q, dim):
    at = q * (x.shape[dim] - 1)
    y, low = x.sort(dim).values, int(at)
    a, b = y.select(dim, low), y.select(dim, min(low + 1, x.shape[dim] - 1))
    return a + (b - a) * (at - low)
