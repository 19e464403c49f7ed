"""The rows of check_table.py: what PyTorch calls each op of ir/ops.def, and how its operands are drawn.

A new op is a new row:   row("softsign", FLOATS, unary(F.softsign))
  types       element types that its shape rule takes: of the first operand (of the second, for a condition)
  make(op, s) a sample: operands from s.var(shape, axes), then s.case(op, operands, attributes, axes of the result,
  function)
  ulps        roundings of one result, as promised by the functions it is made of (compiler/cpu/kernels/functions.c)
  extra       roundings of its gradient that are relative to the incoming one instead (1 - y*y near 1, as PyTorch
              computes it too)
  bends       its gradient is computed from rounded values: what these do counts (always so for what is not pointwise)
  smooth      central differences say what its gradient is
  refused     [(operands as (type, axes, shape), attributes, axes, shape, words)]: shape faults, sizes of 0 that mean
              nothing among them
  cancels     f(attributes, dy, operands): the size of what cancels in its gradients, where that is more than dy and the
              derivative say; one for all operands, or a tuple of one for each
  rereads     the same, in 16 bits, of what its gradients make of its own result, which is rounded by then
  tame        gradients are compared where there is no NaN and no infinity: PyTorch's depend on how it divides there
  few         has less to vary than 32 samples
  linear      in each operand, and nothing but products that are added: of magnitudes it makes the size of what is
              summed, of ones the number of terms
  samples     how many there are of each type, where that is not SHAPES
  skip        draws that say nothing
"""
import math

import torch
import torch.nn.functional as F

from table_basic import product, reduction, with_axis
from table_samples import AXES, FLOATS, NUMBERS, TYPES, WHOLE, ints, names, row, rows, unary

# ---- contractions ----


def contract(op, s):
    a, b, over, size = [("NK", "CK", "K", (3, 1, 5, 7)), ("K", "K", "K", (1, 1, 1, 13)),
                        ("NCK", "NHK", "K", (2, 3, 5, 7)), ("N", "C", "", (5, 7, 1, 1)),
                        ("NK", "CK", "K", (3, 5, 1, 0)), ("NK", "CK", "K", (0, 5, 1, 3)),
                        ("NHK", "KHN", "HK", (2, 1, 3, 5)), ("NCK", "K", "K", (2, 7, 1, 3)),
                        ("CNK", "KHN", "K", (3, 2, 17, 1)), ("NK", "KC", "K", (1, 31, 1, 11)),
                        ("NCH", "HCN", "NCH", (2, 3, 5, 1)), ("NK", "HCK", "K", (3, 2, 2, 17))][s.i]
    length = dict(zip("NCHK", size))
    want = [n for n in a if n not in over] + [n for n in b if n not in over and n not in a]
    return s.case(op, [s.var([length[n] for n in a], a), s.var([length[n] for n in b], b)], {"over": names(over)}, want,
                  lambda x, y: torch.einsum("%s,%s->%s" % (a, b, "".join(want)), x, y))


# spatial sizes, taps, stride, padding before and after, dilation, groups, channels in and out, batch
WINDOWS = [((9,), (4,), (2,), (1,), (1,), (1,), 1, 3, 4, 2), ((5,), (1,), (1,), (0,), (0,), (1,), 1, 1, 1, 1),
           ((11,), (3,), (1,), (2,), (2,), (2,), 3, 6, 3, 1),
           ((7, 6), (3, 2), (2, 1), (1, 0), (2, 1), (1, 1), 1, 3, 5, 2),
           ((7, 5), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 5, 5, 5, 1),
           ((1,), (1,), (1,), (0,), (0,), (1,), 2, 2, 4, 3),
           ((5, 4, 3), (2, 3, 1), (3, 1, 2), (0, 2, 0), (3, 0, 1), (1, 1, 1), 1, 2, 3, 1),
           ((2, 2, 2), (4, 4, 4), (2, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, 1, 2, 1),
           ((13,), (2,), (3,), (0,), (4,), (5,), 1, 2, 7, 1),
           ((3, 11), (1, 5), (1, 4), (0, 2), (0, 2), (1, 2), 1, 17, 3, 1),
           ((7,), (3,), (1,), (1,), (1,), (1,), 1, 3, 2, 0),
           ((6, 7), (2, 2), (2, 3), (0, 0), (0, 0), (1, 1), 2, 4, 6, 2),
           # patches side by side along W
           ((5, 12), (2, 4), (1, 4), (1, 0), (0, 0), (1, 1), 1, 5, 34, 2),
           ((15,), (5,), (5,), (0,), (0,), (1,), 1, 6, 2, 2),
           # wide groups: 16 channels to 24, and to 48
           ((9,), (3,), (1,), (1,), (1,), (1,), 2, 32, 48, 2),
           ((5, 6), (3, 3), (2, 1), (1, 1), (1, 1), (1, 1), 3, 48, 144, 1)]
CONV = (F.conv1d, F.conv2d, F.conv3d)


def windows(made):
    def make(op, s):
        sizes, k, stride, lo, hi, dilation, groups, c, o, n = WINDOWS[s.i]
        if n == 0 and made == "W":
            n = 1
        d = len(sizes)
        spatial, taps = "DHW"[3 - d:], ["k" + a for a in "DHW"[3 - d:]]
        attrs = {"stride": ints(stride), "pad_lo": ints(lo), "pad_hi": ints(hi)}
        out = [(z + p + q - e * (w - 1) - 1) // t + 1 for z, p, q, e, w, t in zip(sizes, lo, hi, dilation, k, stride)]
        conv = lambda x, w: CONV[d - 1](F.pad(x, [v for i in reversed(range(d)) for v in (lo[i], hi[i])]), w,
                                        stride=stride, dilation=dilation, groups=groups)
        # no infinities where they meet the zeros of the padding, which some multiply
        x = lambda: s.var((n, c, *sizes), ["N", "C", *spatial])
        w = lambda: s.var((o, c // groups, *k), ["O", "C", *taps], special=False)
        y = lambda: s.var((n, o, *out), ["N", "C", *spatial], special=False)
        more = {**({"dilation": ints(dilation)} if max(dilation) > 1 else {}),
                **({"groups": groups} if groups > 1 else {})}
        if made == "Y":
            return s.case(op, [x(), w()], {**attrs, **more}, ["N", "C", *spatial], conv)

        def derivative(a, b):  # linear in each operand: PyTorch's own transposed forms, by its autograd
            with torch.enable_grad():
                at = torch.zeros((n, c, *sizes) if made == "X" else (o, c // groups, *k), dtype=a.dtype,
                                 requires_grad=True)
                made_y = conv(at, b) if made == "X" else conv(a, at)
                return torch.autograd.grad(made_y, at, a if made == "X" else b, create_graph=True)[0]
        if made == "X":
            return s.case(op, [y(), w()], {**attrs, "size": ints(sizes), **more}, ["N", "C", *spatial], derivative)
        return s.case(op, [x(), y()], {**attrs, "kernel": ints(k), **more}, ["O", "C", *taps], derivative)
    return make


row("contract", FLOATS, contract, multiplies=True, linear=True)
for op, made in (("conv", "Y"), ("conv_grad_input", "X"), ("conv_grad_weight", "W")):
    row(op, FLOATS, windows(made), multiplies=True, linear=True, samples=len(WINDOWS))
rows["conv"].refused = [([("f32", "NCW", (1, 2, 0)), ("f32", ["O", "C", "kW"], (3, 2, 3))],
                         {"stride": "[1]", "pad_lo": "[0]", "pad_hi": "[0]"}, "NCW", (1, 3, 1), "W"),
                        ([("f32", "NCW", (1, 2, 5)), ("f32", ["O", "C", "kW"], (3, 4, 3))],
                         {"stride": "[1]", "pad_lo": "[0]", "pad_hi": "[0]"}, "NCW", (1, 3, 3), "channels")]


# ---- composites ----


def linear(op, s):
    shape, o = s.pick((3,), (1, 1), (2, 5), (0, 3), (2, 3, 7), (13, 5), (1, 17), (4, 0), (2, 1, 3, 2), (7, 31), (11, 3),
                      (5, 1)), s.pick(4, 1, 7, 3, 13)
    axes = "NTHE"[4 - len(shape):]
    return s.case(op, [s.var(shape, axes), s.var((o, shape[-1]), "OE")], {}, axes, F.linear)


def along(f, dtype=None, some=False, **values):
    def make(op, s):
        shape, axes, k = with_axis(s)
        if some:
            shape = tuple(n or 3 if i == k else n for i, n in enumerate(shape))
        return s.case(op, [s.var(shape, **values)], {"axis": axes[k]},
                      [a for i, a in enumerate(axes) if i != k or not some], lambda x: f(x, k), dtype)
    return make


def scan(f):
    def make(op, s):
        shape, axes, k = with_axis(s)
        reverse = s.i % 2
        return s.case(op, [s.var(shape)], {"axis": axes[k], **({"reverse": 1} if reverse else {})}, axes,
                      lambda x: f(x.flip(k), k).flip(k) if reverse else f(x, k))
    return make


def argsort(op, s):
    shape, axes, k = with_axis(s)
    descending = bool(s.i % 2)
    return s.case(op, [s.var(shape)], {"axis": axes[k], "descending": int(descending)}, axes,
                  lambda x: x.argsort(dim=k, descending=descending, stable=True), "i32")


def linear_scan(op, s):
    shape, axes, k = with_axis(s)
    reverse = s.i % 2

    def steps(a, b):
        h, made = None, []
        for x, y in list(zip(a.unbind(k), b.unbind(k)))[::-1 if reverse else 1]:
            h = y if h is None else x * h + y
            made.append(h)
        return torch.stack(made[::-1] if reverse else made, k) if made else a * b
    # whole factors are 0 and 1: others' products leave i32
    a = s.index(shape, axes, 2, s.dtype) if s.dtype in WHOLE else s.var(shape, special=False)
    return s.case(op, [a, s.var(shape)],
                  {"axis": axes[k], **({"reverse": 1} if reverse else {})}, axes, steps)


def layer_norm(op, s):
    shape = s.pick((5,), (3, 7), (1, 13), (2, 3, 5), (0, 3), (7, 2), (2, 1, 2, 17), (31,), (11, 3), (4, 1, 6),
                   (2, 2, 2), (1, 64))
    axes = AXES[:len(shape)]
    return s.case(op,
                  [s.var(shape), s.var(shape[-1:], axes[-1:], special=False),
                   s.var(shape[-1:], axes[-1:], special=False)], {"eps": s.pick(1e-5, 1e-3)}, axes,
                  lambda x, w, b: F.layer_norm(x, shape[-1:], w, b, s.pick(1e-5, 1e-3)))


IMAGES = [(2, 4, 3), (1, 2, 7), (3, 1, 5), (2, 3, 1, 5), (5, 2), (7, 3, 2), (2, 6, 2, 2), (1, 4, 3, 3), (13, 2),
          (2, 5, 7), (3, 2, 2, 2), (2, 8, 3)]


def norm_sizes(over):
    """A deviation is of the size of x and divided by the spread, which may be as small as sqrt(eps) = 0.003; so is each
    term of the gradient, though of two elements alone nothing remains: 1 and -1 do not move."""
    def sizes(attrs, dy, x, w, *rest):
        spread = over(x).clamp(min=1e-5).sqrt()
        return (dy.abs().max() * w.abs().max().clamp(min=1) / spread * (1 + x.abs().max() / spread)).item()
    return sizes


def batch_norm(op, s):
    shape, eps, training = IMAGES[s.i], s.pick(1e-5, 1e-3), s.pick(1, 1, 0, 0)
    c = shape[1:2]
    parts = [s.var(shape), s.var(c, "C", special=False), s.var(c, "C", special=False),
             s.var(c, "C", role="input", special=bool(training)), s.var(c, "C", role="input", lo=0.5)]
    # PyTorch has no gradient of the running statistics, and refuses to be asked for one
    return s.case(op, parts, {"eps": eps, "momentum": 0.9, "training": training}, AXES[:len(shape)],
                  lambda x, w, b, m,
                  v: F.batch_norm(x, *(None, None) if training else (m.detach(), v.detach()), w, b, bool(training), 0.1,
                                  eps))


def batch_mean(op, s):
    shape, correction = IMAGES[s.i], s.pick(0, 1, 2)
    dims = [0, *range(2, len(shape))]
    count = math.prod(shape[d] for d in dims)
    return s.case(op, [s.var(shape)], {"over": names([AXES[d] for d in dims]), "correction": correction}, AXES[1:2],
                  lambda x: x.sum(dims) / max(count - correction, 1))


def group_norm(op, s):
    shape, eps = IMAGES[s.i], s.pick(1e-5, 1e-3)
    groups = max(g for g in range(1, shape[1] + 1) if shape[1] % g == 0 and (g <= 2 or s.i % 2)
                 and math.prod(shape[1:]) // g > 1)
    c = shape[1:2]
    return s.case(op, [s.var(shape), s.var(c, "C", special=False), s.var(c, "C", special=False)],
                  {"eps": eps, "groups": groups}, AXES[:len(shape)], lambda x, w, b: F.group_norm(x, groups, w, b, eps))


def dropped(whole):
    def make(op, s):
        shape = s.shape()
        rate = s.pick(0.0, 1.0)  # where nothing is drawn by chance; what is drawn check_ops.py compares
        return s.case(op, [s.var(shape)], {"rate": rate}, AXES[:len(shape)], lambda x: x * (1 - rate))
    return make


# spatial sizes, window, stride, padding, dilation
POOLS = [((7,), (3,), (2,), (1,), (1,)), ((1,), (1,), (1,), (0,), (1,)), ((5,), (5,), (1,), (2,), (1,)),
         ((11,), (2,), (3,), (0,), (1,)), ((13,), (4,), (2,), (2,), (3,)),
         ((2,), (2,), (5,), (1,), (1,)), ((6, 6), (2, 2), (2, 2), (0, 0), (1, 1)),
         ((7, 5), (3, 3), (2, 2), (1, 1), (1, 1)), ((4, 9), (3, 2), (1, 3), (0, 1), (1, 2)),
         ((5, 3), (4, 3), (3, 1), (2, 1), (1, 1)), ((3, 4, 5), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1)),
         ((2, 5, 3), (2, 1, 3), (2, 3, 1), (1, 0, 1), (1, 1, 1))]


def image_axes(sizes):
    return "NC" + "DHW"[3 - len(sizes):]


def max_pool(op, s):
    size, k, stride, p, d = POOLS[s.i]
    f, ceil = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(size) - 1], s.i // 2 % 2
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size))],
                  {"stride": ints(stride), "pad_lo": ints(p), "pad_hi": ints(p), "kernel": ints(k), "dilation": ints(d),
                   **({"ceil": 1} if ceil else {})}, image_axes(size),
                  lambda x: f(x, k, stride, p, d, bool(ceil)))


def avg_pool(op, s):
    size, k, stride, p, _ = POOLS[s.i]
    f, ceil = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(size) - 1], s.i // 2 % 2
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size))],
                  {"stride": ints(stride), "pad_lo": ints(p), "pad_hi": ints(p), "kernel": ints(k),
                   "counts_pad": s.i % 2, **({"ceil": 1} if ceil else {})}, image_axes(size),
                  lambda x: f(x, k, stride, p, bool(ceil), bool(s.i % 2)))


SIZES = [((6,), (3,)), ((7,), (3,)), ((5,), (5,)), ((3,), (7,)), ((1,), (4,)), ((13,), (1,)), ((6, 7), (4, 2)),
         ((5, 4), (4, 3)), ((3, 4, 5), (2, 6, 1)), ((7, 2, 3), (5, 1, 3)),
         ((17,), (11,)), ((2, 3), (4, 6))]


def adaptive(op, s):
    size, to = SIZES[s.i]
    f = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[len(size) - 1]
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size))], {"size": ints(to)},
                  image_axes(size), lambda x: f(x, to))


def upsample(op, s):
    size, to = SIZES[s.i]
    mode, corners = s.pick("nearest", "linear", "linear"), s.i % 3 == 2
    torch_mode = "nearest" if mode == "nearest" else ("linear", "bilinear", "trilinear")[len(size) - 1]
    # a neighbour of weight 0 is not read here; PyTorch's linear forms multiply an infinity by it
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size), special=mode == "nearest")],
                  {"size": ints(to), "mode": mode, "corners": int(corners)}, image_axes(size),
                  lambda x: F.interpolate(x, to, mode=torch_mode,
                                          **({} if mode == "nearest" else {"align_corners": corners})))


def attention(op, s):
    n, t, e, h = [(2, 5, 6, 3), (1, 1, 4, 2), (1, 4, 48, 1), (3, 2, 7, 7), (1, 7, 2, 1), (2, 3, 4, 4), (1, 13, 3, 1),
                  (2, 1, 6, 2), (1, 5, 10, 5), (0, 3, 4, 2), (1, 3, 11, 1), (2, 2, 8, 2)][s.i]

    def f(*qkv):
        q, k, v = (x.reshape(n, t, h, e // h).transpose(1, 2) for x in qkv[:3])
        scores = q @ k.transpose(2, 3) / math.sqrt(e // h) + sum(qkv[3:])
        # no key is seen: zeros, as in scaled_dot_product_attention
        blind = (scores == -math.inf).all(3, keepdim=True) & (len(qkv) > 3)
        return ((torch.softmax(scores.masked_fill(blind, 0), 3) * ~blind) @ v).transpose(1, 2).reshape(n, t, e)
    bias = {0: [(1, h, t, t)], 3: [(n, 1, 1, t)], 5: [(n, h, t, t)], 8: [(1, 1, t, t), (1, h, 1, t)]}.get(s.i, [])
    return s.case(op, [s.var((n, t, e), "NTE") for _ in range(3)] + [s.var(b, "BHQK") for b in bias],
                  {"rate": 0, "heads": h}, "NTE", f)


def attention_sizes(attrs, dy, q, k, v, *bias):
    """q and k have their gradients from p (v dy - y dy), two sums over a head's channels of which nothing may remain
    (all of it with one token, where y is v), though each is rounded: what either adds up in magnitude, times p and the
    scale, times what it is multiplied by then. In 16 bits y is read as it was stored, as in the algorithm's source (Dao
    et al. 2022, FlashAttention, algorithm 4)."""
    n, t, e = q.shape
    h = attrs["heads"]
    q, k, v, dy = (x.reshape(n, x.shape[1], h, e // h).transpose(1, 2) for x in (q, k, v, dy))
    scale = 1 / math.sqrt(e // h)
    p = torch.softmax(q @ k.transpose(2, 3) * scale + sum(bias), 3)
    ds = p * (dy.abs() @ v.abs().transpose(2, 3) + (dy * (p @ v)).abs().sum(3, keepdim=True)) * scale
    whole = lambda x: x.transpose(1, 2).reshape(n, -1, e)
    return (whole(ds @ k.abs()), whole(ds.transpose(2, 3) @ q.abs()), 0.0,
            *((ds / scale).sum_to_size(b.shape) for b in bias))


def attention_exponents(attrs, q, k, v, *bias):
    """How large the finite scores are of which each element of the result is made."""
    n, t, e = q.shape
    h = attrs["heads"]
    q, k = (x.reshape(n, t, h, e // h).transpose(1, 2).abs().nan_to_num(0.0, 0.0) for x in (q, k))
    scores = q @ k.transpose(2, 3) / math.sqrt(e // h) + sum(b.abs().nan_to_num(0.0, 0.0) for b in bias)
    return scores.amax(3, keepdim=True).expand(n, h, t, e // h).transpose(1, 2).reshape(n, t, e)


def rearrange(op, s):
    shape, axes, pattern, to, f = s.pick(
        ((2, 6, 8), "NTC", "n (h=2 w=3) (p=2 q=2 c=2) -> n c (h p) (w q)", "NCHW",
         lambda x: x.reshape(2, 2, 3, 2, 2, 2).permute(0, 5, 1, 3, 2, 4).reshape(2, 2, 4, 6)),
        ((2, 3, 1, 5), "NCHW", "n c h w -> n (h w) c", "NTC", lambda x: x.flatten(2).transpose(1, 2)),
        ((2, 12, 8, 2), "NTCW",  # more atoms than a tensor has axes
         "n (a=2 b=3 c=2 d=1) (e=2 f=2 g=1 h=2) w -> n (e b a) (h d w) (g c f)", "NCHW",
         lambda x: x.reshape(2, 2, 3, 2, 1, 2, 2, 1, 2, 2).permute(0, 5, 2, 1, 8, 4, 9, 7, 3, 6).reshape(2, 12, 4, 4)),
        ((7, 3), "NC", "n c -> c n", "CN", lambda x: x.t()),
        ((0, 3, 2), "NCW", "n c w -> n (c w)", "NC", lambda x: x.flatten(1)))
    return s.case(op, [s.var(shape, axes)], {"pattern": '"%s"' % pattern}, to, f)


def scores(s, shape=None):
    n, c = shape or s.pick((3, 5), (1, 2), (7, 13), (2, 1), (5, 3), (1, 31), (11, 7))
    return s.var((n, c), "NC"), s.index((n,), "N", c, s.pick("i32", "i64")), n, c


def cross_entropy(op, s):
    x, t, n, c = scores(s)
    if s.i % 3 == 2:  # shares of the classes
        return s.case(op, [x, s.var((n, c), "NC")], {"axis": "C"}, "N", lambda v,
                      u: -(torch.log_softmax(v, 1) * u).sum(1))
    return s.case(op, [x, t], {"axis": "C"}, "N", lambda v, u: F.cross_entropy(v, u, reduction="none"))


def in_top_k(op, s):
    x, t, n, c = scores(s)
    k = 1 + s.i % c

    def hit(v, u):  # not below the k-th of topk, for which NaN is largest; its numbers of equal scores are any
        own = v.gather(1, u[:, None])[:, 0]
        return own.isnan() | (own >= v.topk(k, 1).values[:, -1])

    return s.case(op, [x, t], {"k": k}, "N", hit, "bool")


row("linear", FLOATS, linear, multiplies=True)
row("gelu", FLOATS, unary(F.gelu), ulps=8)
row("gelu_tanh", FLOATS, unary(lambda x: F.gelu(x, approximate="tanh")), ulps=8)
row("silu", FLOATS, unary(F.silu), ulps=8)
row("softplus", FLOATS, unary(lambda x, beta, threshold: F.softplus(x, beta, threshold), lo=-30, hi=30,
                              attrs=lambda s: {"beta": s.pick(1.0, 2.0, 0.5), "threshold": s.pick(20.0, 1.0)}), ulps=8)
row("clamp", NUMBERS, unary(lambda x, low=None, high=None: torch.clamp(x, low, high),
                            attrs=lambda s: s.pick({"low": -1, "high": 1}, {"low": 0}, {"high": 1},
                                                   {"low": 1, "high": -1})))
row("prod", NUMBERS, reduction(product), tame=True)
row("cumsum", NUMBERS, scan(lambda x, k: torch.cumsum(x, k)))
# nothing special: 1e-30 squared is 0 in f32, 1000 to the fourth beyond i32
row("cumprod", NUMBERS, scan(lambda x, k: torch.cumprod(x, k)), tame=True, skip=("special",))
row("linear_scan", NUMBERS, linear_scan, tame=True, skip=("special",))
row("log_softmax", FLOATS, along(torch.log_softmax))
row("softmax", FLOATS, along(torch.softmax))
row("layer_norm", FLOATS, layer_norm, cancels=norm_sizes(lambda x: x.var(-1, False).min()))
row("batch_norm", FLOATS, batch_norm, cancels=norm_sizes(lambda x: x.transpose(0, 1).flatten(1).var(1, False).min()))
row("batch_mean", FLOATS, batch_mean)
row("group_norm", FLOATS, group_norm, cancels=norm_sizes(lambda x: torch.tensor(0.0)))
row("dropout", FLOATS, dropped(False))
row("drop_path", FLOATS, dropped(True))
row("max_pool", FLOATS, max_pool)
row("avg_pool", FLOATS, avg_pool)
row("adaptive_avg_pool", FLOATS, adaptive)
# a neighbour's weight is what is left of its place, which is up to 17 and rounded before
row("upsample", FLOATS, upsample, ulps=64, extra=64)
row("attention", FLOATS, attention, multiplies=True, cancels=attention_sizes, rereads=attention_sizes,
    exponents=attention_exponents)
row("rearrange", TYPES, rearrange)
row("cross_entropy", FLOATS, cross_entropy)
row("argmax", TYPES, along(lambda x, k: x.double().argmax(k), "i32", True),
    refused=[([("f32", "NC", (3, 0))], {"axis": "C"}, "N", (3,), "argmax needs at least one element along C")])
row("argsort", NUMBERS, argsort)
# No function of its operands' values, but of what is between them: check_gradients.py.
row("grad", (), lambda op, s: None, few=True)
# What it draws check_ops.py compares.
row("rand", (), lambda op, s: None, few=True)
row("in_top_k", FLOATS, in_top_k)
# A kernel: what every other op is computed in here, compiled.
row("fused", (), lambda op, s: None, few=True)
# Templates, which have several results: `attention` becomes these above, forward and backward, whose first results it
# sees; their other results, the causal ones, other numbers of keys and dropout check_ops.py compares with PyTorch and
# tests/unit/test_attention.c, compiled, with the interpreter.
for op in ("flash_attention", "flash_attention_grad", "flash_attention_bias_grad"):
    row(op, (), lambda op, s: None, few=True)
# Recurrent layers, and their steps and the gradient of these: check_ops.py, and compiled check_recurrence.py.
for op in ("recurrence", "recurrent", "recurrent_grad"):
    row(op, (), lambda op, s: None, few=True)
# What linear scans become: compiled above, and by check_scan.py.
row("scan_linear", (), lambda op, s: None, few=True)
# A graph of its own, step by step: check_scan_cells.py, compiled, and tests/unit/test_body.c.
row("scan", (), lambda op, s: None, few=True)
# Along one axis, and products of such: check_fourier.py compares all modes with torch.fft, compiled.
for op in ("fourier", "complex_contract"):
    row(op, (), lambda op, s: None, few=True)
# Between ranks: tests/unit/test_shard.c holds them, forward and backward, to whole graphs in double precision,
# tests/ranks real ones to one rank.
for op in ("all_reduce", "all_gather", "reduce_scatter", "shift", "enter", "scale_gradient"):
    row(op, (), lambda op, s: None, few=True)
