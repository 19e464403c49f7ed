#!/usr/bin/python3
"""check_ops.py INTERP_RUN: the reference interpreter against PyTorch in float64, op by op.

One graph holds every case as a node with its own inputs; each result is compared with what PyTorch computes.
Every op of ops.def that the interpreter gives a meaning must appear here (OPS is compared with the table).
"""
import itertools
import math
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as e:
    print("SKIP: %s (needs python3-torch)" % e)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_nets import philox

table = open(os.path.join(os.path.dirname(__file__), "../../ir/ops.def")).read()
ops = re.findall(r'^OP\(\w+, "(\w+)", -?\d, (\w+),\s+\w+, \w+, (\w+)', table, re.M)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
rng = np.random.default_rng(7)
nan, inf = float("nan"), float("inf")

lines, results, data, want, names, used = [], [], {}, [], [], set()
next_id = 0


def new_id():
    global next_id
    next_id += 1
    return next_id - 1


def text(dtype, axes):
    return "%s[%s]" % (dtype, ", ".join("%s=%d" % a if a[0] else "%d" % a[1] for a in axes))


def put(x, axes, dtype="f64"):
    """An input variable holding tensor x; its name."""
    name = "v%d" % len(data)
    data[name] = x
    lines.append("  input $%s = %%%d : %s" % (name, new_id(), text(dtype, list(zip(axes, x.shape)))))
    return "$" + name


def case(op, operands, attrs, axes, expect, dtype="f64"):
    """A node whose result must be `expect` (a tensor, or a list of them with a list of their axes)."""
    used.add(op)
    several = isinstance(expect, list)
    each = list(zip(axes, expect)) if several else [(axes, expect)]
    ids = [new_id() for _ in each]
    a = " {%s}" % ", ".join("%s=%s" % kv for kv in attrs.items()) if attrs else ""
    types = ", ".join(text(dtype, list(zip(ax, e.shape))) for ax, e in each)
    lines.append("  %s = %s %s%s : %s" % (", ".join("%%%d" % v for v in ids), op, ", ".join(operands), a, types))
    for v, (_, e) in zip(ids, each):
        results.append('  output "%s%d" = %%%d' % (op, v, v))
        names.append("%s%s" % (op, a))
        want.append(e.to(torch.float64))


def T(*shape, lo=-2.0, hi=2.0):
    return torch.from_numpy(rng.uniform(lo, hi, shape))


def ints(v):
    return "[%s]" % ", ".join(map(str, v))


# pointwise, one operand: with both signs, zeros, infinities and NaN
special = torch.cat([T(40), torch.tensor([0.0, -0.0, inf, -inf, nan, 0.5, 1.5, -1.5])])
x = put(special, ["N"])
unary = {"neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "tanh": torch.tanh,
         "sigmoid": torch.sigmoid, "sin": torch.sin, "cos": torch.cos, "erf": torch.erf, "floor": torch.floor,
         "relu": torch.relu, "sign": torch.sign}
for op, f in unary.items():
    case(op, [x], {}, ["N"], f(special))
SCALAR = r"SCALAR\((?:[^()]|\([^()]*\))*\)"
plain = re.findall(rf'^OP\(\w+, "(\w+)", 1, ELEM,\s+elem,\s+\w+,\s+\w+,\s+\w+,\s+{SCALAR},\s+NONE', table, re.M)
if not set(unary) <= set(plain):
    sys.exit("check_ops.py: it reads ops.def's rows of one operand no more")
for op in plain:
    if op not in unary:  # of PyTorch's name
        case(op, [x], {}, ["N"], (getattr(torch, op, None) or getattr(F, op))(special))
for slope in (0.01, 0.0, 2.0):
    case("leaky_relu", [x], {"slope": slope}, ["N"], F.leaky_relu(special, slope))
flags, other = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([1.0, 1.0, 0.0, 0.0])
p, q = put(flags, ["N"], "bool"), put(other, ["N"], "bool")
case("not", [p], {}, ["N"], torch.logical_not(flags), "bool")
case("and", [p, q], {}, ["N"], torch.logical_and(flags, other), "bool")
case("or", [p, q], {}, ["N"], torch.logical_or(flags, other), "bool")
finite = torch.tensor([2.7, -2.7, 0.0, 0.3])
y = put(finite, ["N"])
case("cast", [y], {}, ["N"], finite.to(torch.int32), "i32")
case("cast", [y], {}, ["N"], finite.to(torch.bool), "bool")
case("cast", [p], {}, ["N"], flags)
beyond = torch.tensor([2.0**31, -(2.0**31) - 1, 2147483647.5, 1e30, inf, -inf, nan])
# as x86 has it
case("cast", [put(beyond, ["N"])], {}, ["N"], torch.tensor([-(2.0**31)] * 2 + [2147483647.0] + [-(2.0**31)] * 4), "i32")
case("cast", [put(beyond, ["N"])], {}, ["N"],
     torch.where(beyond.abs() < 1e18, beyond.trunc(), torch.tensor(-(2.0**63))), "i64")

# pointwise, two and three operands: every pair of special values, and broadcasting by name
some = torch.tensor([-1.5, -0.0, 0.0, 0.5, 2.0, inf, -inf, nan])
pairs = torch.cartesian_prod(some, some)
a, b = put(pairs[:, 0].contiguous(), ["N"]), put(pairs[:, 1].contiguous(), ["N"])
binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
          "min": torch.minimum,
          "max": torch.maximum}
compare = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
for op, f in binary.items():
    case(op, [a, b], {}, ["N"], f(pairs[:, 0], pairs[:, 1]))
for op, f in compare.items():
    case(op, [a, b], {}, ["N"], f(pairs[:, 0], pairs[:, 1]), "bool")
nchw, channel, rows, one = T(2, 3, 4, 5), T(3), T(5, 2), T(1, 3)
ta, tc, tr, to, ts = (put(nchw, "NCHW"), put(channel, "C"), put(rows, ["W", "N"]), put(one, ["", "C"]),
                      put(torch.tensor(1.25), []))
case("add", [ta, tc], {}, "NCHW", nchw + channel[:, None, None])
case("mul", [ta, tr], {}, "NCHW", nchw * rows.t()[:, None, None, :])
case("sub", [tc, tr], {}, "CWN", channel[:, None, None] - rows)
case("div", [ta, ts], {}, "NCHW", nchw / 1.25)
cond = (T(4) > 0).double()
cb = put(cond, ["H"], "bool")
case("select", [cb, ta, ts], {}, "NCHW",  # in the order of the operand that has all axes
     torch.where(cond.bool()[:, None], nchw, torch.tensor(1.25)))

# reductions
empty = torch.zeros(3, 0)
te = put(empty, ["C", "H"])
for over in ("N", "C", "W", "NC", "HW", "NHW", "NCHW"):
    dims = ["NCHW".index(c) for c in over]
    rest = [c for c in "NCHW" if c not in over]
    attr = {"over": "[%s]" % ", ".join(over)}
    case("sum", [ta], attr, rest, nchw.sum(dims))
    case("mean", [ta], attr, rest, nchw.mean(dims))
    case("reduce_max", [ta], attr, rest, nchw.amax(dims))
    case("reduce_min", [ta], attr, rest, nchw.amin(dims))
case("sum", [te], {"over": "[H]"}, "C", empty.sum(1))
case("mean", [te], {"over": "[H]"}, "C", empty.mean(1))
case("reduce_max", [x], {"over": "[N]"}, [], special.amax())

# moves and sources
case("const", [], {"value": 0.1}, [], torch.tensor(0.1))
case("iota", [], {"axis": "N"}, "N", torch.arange(7.0), "f32")
case("broadcast", [tr], {}, "NCHW", rows.t()[:, None, None, :].expand(2, 3, 4, 5))
case("slice", [ta], {"axis": "C", "start": 1, "stop": 3}, "NCHW", nchw[:, 1:3])
case("slice", [ta], {"axis": "W", "start": 2, "stop": 2}, "NCHW", nchw[..., 2:2])
case("pad", [ta], {"axis": "H", "pad_lo": "[1]", "pad_hi": "[2]"}, "NCHW", F.pad(nchw, (0, 0, 1, 2)))
more = T(2, 2, 4, 5)
tm = put(more, "NCHW")
case("cat", [ta, tm, ta], {"axis": "C"}, "NCHW", torch.cat([nchw, more, nchw], 1))
case("cat", [ta, ta], {"axis": "W"}, "NCHW", torch.cat([nchw, nchw], 3))
flat = T(2, 1, 3)
tf = put(flat, "NCH")
case("squeeze", [tf], {"axis": "C"}, "NH", flat[:, 0])
case("unsqueeze", [tf], {"axis": "W", "index": 1}, "NWCH", flat[:, None])
case("rename", [tf], {}, "ABC", flat)
case("relayout", [ta], {}, "NCHW", nchw)

# contractions by windows: 1 to 3 spatial axes, strides, asymmetric padding, dilation, groups; gradients by PyTorch's
# autograd. The transposed convolution is the input gradient too, its weight [in, out / groups, k...] read as [O, C /
# groups, k...]
sliding = re.findall(r'^OP\(\w+, "(\w+)",[^"]*WINDOWS\((\w), (\w), (\w)\)', table, re.M)
conv, conv_transpose = (F.conv1d, F.conv2d, F.conv3d), (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def windows(sizes, k, stride, lo, hi, dilation=None, groups=1, channels=(3, 4)):
    n, dilation = len(sizes), dilation or (1,) * len(sizes)
    spatial, taps = "DHW"[3 - n:], ["k" + c for c in "DHW"[3 - n:]]
    cx, cw = T(2, channels[0], *sizes).requires_grad_(), T(channels[1], channels[0] // groups, *k).requires_grad_()
    padded = F.pad(cx, [v for i in reversed(range(n)) for v in (lo[i], hi[i])])
    cy = conv[n - 1](padded, cw, stride=stride, dilation=dilation, groups=groups)
    dy = T(*cy.shape)
    dx, dw = torch.autograd.grad(cy, [cx, cw], dy)
    window = {"stride": ints(stride), "pad_lo": ints(lo), "pad_hi": ints(hi)}
    more = {**({"dilation": ints(dilation)} if max(dilation) > 1 else {}), **({"groups": groups} if groups > 1 else {})}
    operand = {"X": put(cx.detach(), ["N", "C", *spatial]), "W": put(cw.detach(), ["O", "C", *taps]),
               "Y": put(dy, ["N", "C", *spatial])}
    result = {"X": ({"size": ints(sizes)}, dx), "W": ({"kernel": ints(k)}, dw), "Y": ({}, cy.detach())}
    for op, first, second, made in sliding:  # whichever of the three its operands are
        extra, expect = result[made]
        case(op, [operand[first], operand[second]], {**window, **extra, **more},
             ["O", "C", *taps] if made == "W" else ["N", "C", *spatial], expect)
    rest = [sizes[i] + lo[i] + hi[i] - dilation[i] * (k[i] - 1) - 1 - (cy.shape[2 + i] - 1) * stride[i]
            for i in range(n)]
    if lo == hi and all(r < max(stride[i], dilation[i]) for i, r in enumerate(rest)):
        up = conv_transpose[n - 1](dy, cw.detach(), stride=stride, padding=lo, output_padding=rest, dilation=dilation,
                                   groups=groups)
        case("conv_grad_input", [operand["Y"], operand["W"]], {**window, "size": ints(sizes), **more},
             ["N", "C", *spatial], up)


for given in [((9,), (4,), (2,), (1,), (1,)), ((5,), (1,), (1,), (0,), (0,)),
              ((7, 6), (3, 2), (2, 1), (1, 0), (2, 1)), ((7, 6), (3, 3), (1, 1), (0, 2), (0, 2)),
              ((4, 6, 5), (4, 4, 3), (2, 2, 1), (1, 1, 1), (1, 1, 1)),
              ((5, 4, 6), (2, 3, 1), (3, 1, 2), (0, 2, 0), (3, 0, 1)),
              ((2, 2, 2), (4, 4, 4), (2, 2, 2), (1, 1, 1), (1, 1, 1))]:
    windows(*given)
# none, some, one each way, depthwise, a multiple, and many a group
grouped = [(1, (3, 4)), (2, (4, 6)), (3, (6, 3)), (5, (5, 5)), (4, (4, 12)), (3, (48, 72))]
for i, (sizes, k, stride, lo, hi, dilation) in enumerate([
        ((11,), (3,), (1,), (2,), (2,), (2,)), ((13,), (2,), (3,), (0,), (4,), (5,)),
        ((9,), (4,), (2,), (3,), (3,), (3,)),
        ((7, 9), (3, 2), (1, 2), (3, 0), (3, 0), (3, 1)), ((8, 7), (2, 3), (2, 3), (1, 4), (1, 4), (2, 3)),
        ((6, 5, 7), (2, 3, 2), (1, 2, 3), (0, 2, 1), (1, 2, 1), (3, 2, 2)),
        ((5, 5, 5), (3, 3, 3), (2, 1, 2), (2, 2, 2), (2, 2, 2), (2, 2, 1)),
        ((1,), (1,), (1,), (0,), (0,), (1,)), ((3, 17), (1, 5), (1, 4), (0, 6), (0, 6), (1, 3))]):
    for groups, channels in grouped:
        windows(sizes, k, stride, lo, hi, dilation, groups, channels)
# `same` as PyTorch has it: the odd zero after
for size, k, dilation in ((9, 4, 1), (9, 4, 3), (8, 2, 5), (7, 5, 2)):
    sx, sw, total = T(1, 2, size), T(3, 2, k), dilation * (k - 1)
    case("conv", [put(sx, "NCW"), put(sw, ["O", "C", "kW"])],
         {"stride": "[1]", "pad_lo": ints([total // 2]), "pad_hi": ints([total - total // 2]),
          "dilation": ints([dilation])}, "NCW",
         F.conv1d(sx, sw, padding="same", dilation=dilation))

# contractions by names
left, right, batched = T(2, 5, 3), T(4, 3), T(3, 2, 6)
tl, tr2, tb = put(left, "NTK"), put(right, "OK"), put(batched, "KNS")
case("contract", [tl, tr2], {"over": "[K]"}, "NTO", torch.einsum("ntk,ok->nto", left, right))
case("contract", [tl, tb], {"over": "[K]"}, "NTS", torch.einsum("ntk,kns->nts", left, batched))
case("contract", [tl, tb], {"over": "[K, N]"}, "TS", torch.einsum("ntk,kns->ts", left, batched))
case("contract", [tl, tl], {"over": "[N, T, K]"}, [], (left * left).sum())
case("contract", [tr2, tb], {"over": "[]"}, "OKNS", torch.einsum("ok,kns->okns", right, batched))
case("reshape", [tl], {}, "ABCD", left.reshape(5, 2, 1, 3))
patches = T(2, 6, 8)
case("rearrange", [put(patches, "NTC")], {"pattern": '"n (h=2 w=3) (p=2 q=2 c=2) -> n c (h p) (w q)"'}, "NCHW",
     patches.reshape(2, 2, 3, 2, 2, 2).permute(0, 5, 1, 3, 2, 4).reshape(2, 2, 4, 6))
case("rearrange", [put(nchw, "NCHW")], {"pattern": '"n c h w -> n (h w) c"'}, "NTC", nchw.flatten(2).transpose(1, 2))
for shape, axes in (((2, 5, 3), "NTE"), ((3,), "E")):
    lx, lw = T(*shape), T(4, 3)
    case("linear", [put(lx, axes), put(lw, "OE")], {}, axes, F.linear(lx, lw))
for tokens, features, heads in ((5, 6, 3), (4, 48, 1), (1, 4, 2)):
    qkv = [T(2, tokens, features) for _ in range(3)]
    parts = [v.reshape(2, tokens, heads, features // heads).transpose(1, 2) for v in qkv]
    scores = parts[0] @ parts[1].transpose(2, 3) / (features // heads) ** 0.5
    case("attention", [put(v, "NTE") for v in qkv], {"rate": 0, "heads": heads}, "NTE",
         (torch.softmax(scores, 3) @ parts[2]).transpose(1, 2).reshape(2, tokens, features))

# attention as a template: its logarithms, its gradients by PyTorch's own; more keys than queries, masked, in part
# dropped; and as a part of a larger one, whose heads, queries and keys begin with `first`
for tokens, keys, features, heads, causal, rate, first, whole in (
        (5, 5, 6, 3, 0, 0, None, None), (4, 7, 48, 1, 0, 0, None, None), (1, 1, 4, 2, 1, 0, None, None),
        (9, 6, 6, 2, 1, 0, None, None),
        (6, 9, 8, 4, 1, 0.4, None, None), (5, 7, 8, 2, 0, 0.4, (1, 4, 2), (4, 12, 9)),
        (3, 6, 8, 2, 1, 0.3, (2, 5, 3), (5, 9, 9))):
    q, dy = T(2, tokens, features), T(2, tokens, features)
    k, v = T(2, keys, features), T(2, keys, features)
    for operand in (q, k, v):
        operand.requires_grad_()
    split = lambda tokens_of: tokens_of.reshape(2, -1, heads, features // heads).transpose(1, 2)
    scores = split(q) @ split(k).transpose(2, 3) / (features // heads) ** 0.5
    at, of = first or (0, 0, 0), whole or (heads, tokens, keys)
    if causal:
        scores = scores.masked_fill(~torch.ones(tokens, keys, dtype=torch.bool).tril(at[1] - at[2]), -inf)
    logs, shares, attrs = torch.logsumexp(scores, 3), torch.softmax(scores, 3), {"rate": rate, "number": 5,
                                                                                 "heads": heads, "causal": causal}
    drawn = []
    if first:
        attrs |= {"first": list(first), "whole": list(whole)}
    if rate:
        toss = philox(77, 3, 5, 2 * math.prod(of)).reshape(2, *of)
        toss = toss[:, at[0]:at[0] + heads, at[1]:at[1] + tokens, at[2]:at[2] + keys]
        shares = shares * (toss >= rate) / (1 - rate)
        drawn = [put(torch.tensor(c, dtype=torch.float64), "", "i64") for c in (77.0, 3.0)]
    y = (shares @ split(v)).transpose(1, 2).reshape(2, tokens, features)
    grads = torch.autograd.grad(y, (q, k, v), dy)
    named = [put(q, "NTE"), put(k, "NSE"), put(v, "NSE")]
    case("flash_attention", named + drawn, attrs, ["NTE", ("N", "head", "T")], [y.detach(), logs.detach()])
    left = [put(y, "NTE"), put(logs, ("N", "head", "T")), put(dy, "NTE")]
    case("flash_attention_grad", named + left + drawn, attrs, ["NTE", "NSE", "NSE"], list(grads))

# with what is added to scores: a mask by sample and key, of which one sample sees no key, and a bias by head and query,
# with its gradient
for tokens, keys, features, heads, shape, blind in ((5, 7, 6, 3, (1, 3, 5, 7), False), (4, 6, 8, 2, (1, 2, 1, 6), True),
                                                    (3, 5, 4, 1, (2, 1, 3, 5), True)):
    q, dy, k, v = T(2, tokens, features), T(2, tokens, features), T(2, keys, features), T(2, keys, features)
    bias, mask = T(*shape), torch.rand(2, 1, 1, keys, generator=torch.Generator().manual_seed(keys)) > 0.3
    mask[0, ..., 0], mask[1] = True, mask[1] & (not blind)
    for operand in (q, k, v, bias):
        operand.requires_grad_()
    split = lambda tokens_of: tokens_of.reshape(2, -1, heads, features // heads).transpose(1, 2)
    y = F.scaled_dot_product_attention(split(q), split(k), split(v), bias.masked_fill(~mask, -inf)) if hasattr(
        F, "scaled_dot_product_attention") else None
    scores = (split(q) @ split(k).transpose(2, 3) / (features // heads) ** 0.5 + bias).masked_fill(~mask, -inf)
    shares = torch.softmax(scores.masked_fill(~mask.any(3, keepdim=True), 0), 3) * mask.any(3, keepdim=True)
    if y is not None:
        assert torch.allclose(y, shares @ split(v), atol=1e-12), "PyTorch's own attention: zeros where no key is seen"
    y, logs = (shares @ split(v)).transpose(1, 2).reshape(2, tokens, features), torch.logsumexp(scores, 3)
    dq, dk, dv, db = torch.autograd.grad(y, (q, k, v, bias), dy)
    attrs = {"rate": 0, "number": 5, "heads": heads, "causal": 0}
    named = [put(q, "NTE"), put(k, "NSE"), put(v, "NSE")]
    added = [put(bias.detach(), "nhts"), put(torch.zeros(mask.shape).masked_fill(~mask, -inf), "nhts")]
    case("attention", named + added, {"rate": 0, "heads": heads}, "NTE", y.detach())
    case("flash_attention", named + added, attrs, ["NTE", ("N", "head", "T")], [y.detach(), logs.detach()])
    left = [put(y, "NTE"), put(logs, ("N", "head", "T")), put(dy, "NTE")]
    case("flash_attention_grad", named + left + added, attrs, ["NTE", "NSE", "NSE"], [dq, dk, dv])
    if shape[2] == tokens:
        case("flash_attention_bias_grad", named + left + added, attrs | {"k": 0}, "nhts", db)
def complex_cases():
    """Fourier transforms by their definition, and complex products."""
    # Fourier transforms by their definition: all modes, few of them, of both signs, with weights
    for size, samples, modes in ((1, 1, 1), (8, 8, 5), (9, 7, 3), (12, 12, 7)):
        x = T(2, samples, 3)
        attrs = {"axis": "W", "size": f"[{size}]", "start": 0, "stop": modes, "value": 0.5, "mode": "r2c", "twice": 0}
        spectrum = torch.fft.rfft(x, size, dim=1)[:, :modes]
        case("fourier", [put(x, "NWC")], attrs, "NWCZ", torch.view_as_real(spectrum * 0.5))
        z = T(2, modes, 3, 2)
        attrs |= {"stop": samples, "mode": "c2r", "twice": 1}
        back = torch.fft.irfft(torch.view_as_complex(z), size, dim=1, norm="forward")[:, :samples]
        case("fourier", [put(z, "NWCZ")], attrs, "NWC", back * 0.5)
    z = T(2, 9, 2)
    both = torch.fft.fft(torch.view_as_complex(z), 11, dim=1)
    attrs = {"axis": "W", "size": "[11]", "start": -2, "stop": 3, "value": 1, "mode": "fft", "twice": 0}
    case("fourier", [put(z, "NWZ")], attrs, "NWZ", torch.view_as_real(torch.cat([both[:, :3], both[:, -2:]], 1)))
    z = T(2, 5, 2)
    few = torch.cat([torch.view_as_complex(z)[:, :3], torch.zeros(2, 6), torch.view_as_complex(z)[:, 3:]], 1)
    case("fourier", [put(z, "NWZ")], attrs | {"stop": 10, "mode": "ifft"}, "NWZ",
         torch.view_as_real(torch.fft.ifft(few, dim=1, norm="forward")[:, :10]))

    # complex products: which operand is conjugated; the result's axes in another order
    a, w = T(2, 3, 5, 2), T(3, 4, 5, 2)
    for conj in ((0, 0), (1, 0), (0, 1), (1, 1)):
        za, zw = (z.conj() if c else z for z, c in zip((torch.view_as_complex(a), torch.view_as_complex(w)), conj))
        case("complex_contract", [put(a, "NCKZ"), put(w, "COKZ")], {"over": "[C]", "conj": list(conj)}, "ONKZ",
             torch.view_as_real(torch.einsum("nck,cok->onk", za, zw).resolve_conj()))


complex_cases()


def recurrent_cases():
    """Recurrent layers next to torch.nn's, in both directions, from zero states and from others, without and with the
    last cell state; their steps, and the gradient of these."""
    for (mode, gates, kept), reverse, started in itertools.product(
            (("lstm", 4, 5), ("gru", 3, 4), ("rnn_tanh", 1, 0), ("rnn_relu", 1, 0)), (0, 1), (False, True)):
        x, weights = T(2, 5, 6), [T(gates * 3, 6), T(gates * 3, 3), T(gates * 3), T(gates * 3)]
        lstm, none = mode == "lstm", torch.zeros(gates * 3).double()
        start = (T(2, 1 + lstm, 3) if started else torch.zeros(2, 1 + lstm, 3).double()).requires_grad_()
        attrs = {"mode": mode, "reverse": reverse} | ({"cell": 1} if lstm and started else {})

        def layer(p, bias):
            """The layer, of the input's products instead of the input."""
            same, first = torch.eye(gates * 3).double(), start.transpose(0, 1).contiguous().split(1)
            y, *last = getattr(torch, mode)(p.flip(1) if reverse else p, first if lstm else first[0],
                                            [same, weights[1], none, bias], True, 1, 0.0, False, False, True)
            y = y.flip(1) if reverse else y
            return torch.cat([y, last[1].transpose(0, 1)], 1) if "cell" in attrs else y

        p = (F.linear(x, weights[0]) + weights[2]).requires_grad_()
        y = layer(p, weights[3])
        dy = T(*y.shape)
        named = [put(v, axes) for v, axes in zip([x] + weights, ("NTE", "OE", "OI", "O", "O"))]
        first = [put(start.detach(), "NTE")] if started else []
        case("recurrence", named + first, attrs, "NTE", y.detach())
        case("recurrence", named[:3] + first, attrs, "NTE", layer(F.linear(x, weights[0]), none).detach())
        dp, dstart = torch.autograd.grad(y, (p, start), dy)
        # what is saved: gates, and c or the new state's product, step by step
        saved, h = torch.zeros(2, 5, kept * 3).double(), start[:, 0].detach()
        c = start[:, -1].detach()
        for t in (range(4, -1, -1) if reverse else range(5)):
            q, u = p[:, t].detach(), F.linear(h, weights[1], weights[3])
            if mode == "lstm":
                i, f, g, o = (q + u).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                saved[:, t] = torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid(), c], 1)
            elif mode == "gru":
                r, z = (q + u)[:, :3].sigmoid(), (q + u)[:, 3:6].sigmoid()
                saved[:, t] = torch.cat([r, z, (q[:, 6:] + r * u[:, 6:]).tanh(), u[:, 6:]], 1)
            h = y[:, t].detach()
        steps = [put(p.detach(), "NTE"), named[2], put(weights[3], "E")]
        case("recurrent", steps + first, attrs, ["NTE", "NTE"], [y.detach(), saved])
        left = [put(y.detach(), "NTE"), put(saved, "NTE"), put(dy, "NTE")]
        case("recurrent_grad", [named[2]] + left + first, attrs, ["NTE", "NTE"],
             [dp, dstart if started else dstart[:, :0]])


recurrent_cases()


def scan_cases():
    """Linear scans in both directions, of both modes."""
    a, b = T(2, 5, 3), T(2, 5, 3)
    pa, pb = put(a, "NTE"), put(b, "NTE")
    for reverse in (0, 1):
        turn = lambda v: v.flip(1) if reverse else v
        x, y = turn(a), turn(b)
        more = {"reverse": 1} if reverse else {}
        case("cumsum", [pb], {"axis": "T"} | more, "NTE", turn(y.cumsum(1)))
        case("cumprod", [pb], {"axis": "T"} | more, "NTE", turn(y.cumprod(1)))
        case("scan_linear", [pb], {"axis": "T", "mode": "own", "reverse": reverse}, "NTE", turn(y.cumsum(1)))
        for mode in ("own", "before"):
            made = [y[:, 0]]
            for i in range(1, 5):
                made.append(x[:, i - (mode == "before")] * made[-1] + y[:, i])
            made = turn(torch.stack(made, 1))
            case("scan_linear", [pb, pa], {"axis": "T", "mode": mode, "reverse": reverse}, "NTE", made)
            if mode == "own":
                case("linear_scan", [pa, pb], {"axis": "T"} | more, "NTE", made)


scan_cases()

# random numbers: those of the test's own Philox; composites draw with seed and step 0, numbered as they stand
draw = lambda seed, step, number, *shape: philox(seed, step, number, math.prod(shape)).reshape(shape).double()
counters = [put(torch.tensor(v, dtype=torch.float64), "", "i64") for v in (2.0**53 - 1, 2.0**32 + 3, 0.0)]
for (s, seed), (t, step) in itertools.product(zip(counters, (2**53 - 1, 2**32 + 3, 0)), repeat=2):
    case("random", [s, t], {"number": 5}, "NC", draw(seed, step, 5, 3, 7))
flat = T(9, 5, 3)
td = put(flat, "NTC")
case("dropout", [td], {"rate": 0.3}, "NTC", flat * (draw(0, 0, 6, 9, 5, 3) >= 0.3) / 0.7)
case("drop_path", [td], {"rate": 0.6}, "NTC", flat * (draw(0, 0, 7, 9) >= 0.6)[:, None, None] / 0.4)
case("dropout", [td], {"rate": 0}, "NTC", flat)
case("dropout", [td], {"rate": 1}, "NTC", 0 * flat)
case("dropout", [td], {"rate": 0.25}, "NTC", flat * (draw(0, 0, 8, 9, 5, 3) >= 0.25) / 0.75)
case("rand", [td], {"training": 1}, "NTC", draw(0, 0, 9, 9, 5, 3))
case("rand", [td], {"training": 0}, "NTC", draw(0, 0, 10, 9, 5, 3))

# composites, which are lowered first: scores large enough to overflow without care, classes at both ends
wide = T(3, 5, lo=-3, hi=3) + torch.tensor([1000.0, 0.0, -1000.0])[:, None]
tw, classes = put(wide, "NC"), torch.tensor([0, 4, 2])
ti = put(classes.double(), ["N"], "i32")
case("gelu", [x], {}, ["N"], F.gelu(special))
for axis, dim in (("C", 1), ("N", 0)):
    case("softmax", [tw], {"axis": axis}, "NC", torch.softmax(wide, dim))
    case("argmax", [tw], {"axis": axis}, "N" if dim else "C", wide.argmax(dim).double(), "i32")
equal = torch.tensor([[1.0, 3.0, 3.0], [nan, 5.0, nan]])
case("argmax", [put(equal, "NC")], {"axis": "C"}, "N", equal.argmax(1).double(), "i32")
case("stop_gradient", [tw], {}, "NC", wide)
case("updated", [tw], {}, "NC", wide)
case("cross_entropy", [tw, ti], {"axis": "C"}, "N", F.cross_entropy(wide, classes, reduction="none"))
strangers = torch.tensor([4, 5, -1])  # of which PyTorch says that they are out of bounds
case("cross_entropy", [tw, put(strangers.double(), "N", "i64")], {"axis": "C"}, "N",
     torch.cat([F.cross_entropy(wide[:1], strangers[:1], reduction="none"), torch.tensor([inf, inf])]))
shares = torch.softmax(T(3, 5), 1)
case("cross_entropy", [tw, put(shares, "NC")], {"axis": "C"}, "N", F.cross_entropy(wide, shares, reduction="none"))
pixels, labels = T(2, 3, 4, 5), torch.arange(40).reshape(2, 4, 5) % 3
case("cross_entropy", [put(pixels, "NCHW"), put(labels.double(), "NHW", "i64")], {"axis": "C"}, "NHW",
     F.cross_entropy(pixels, labels, reduction="none"))
case("cross_entropy", [put(pixels, "NCHW"), put(shares[0, :3], "C")], {"axis": "C"}, "NHW",
     F.cross_entropy(pixels, shares[0, :3, None, None].expand(2, 3, 4, 5), reduction="none"))
for k in (1, 2, 5):
    best = (wide.topk(k, 1).indices == classes[:, None]).any(1)
    case("in_top_k", [tw, ti], {"k": k}, "N", best.double(), "bool")
    best = (wide.topk(k, 1).indices == strangers[:, None]).any(1)
    case("in_top_k", [tw, put(strangers.double(), "N", "i64")], {"k": k}, "N", best.double(), "bool")
holes = torch.tensor([[nan, 1.0, 2.0], [nan, 1.0, 2.0], [3.0, nan, 2.0]])  # a NaN is largest
for k in (1, 2, 3):
    case("in_top_k", [put(holes, "NC"), put(torch.tensor([2.0, 0, 0]), "N", "i32")], {"k": k}, "N",
         (holes.topk(k, 1).indices == torch.tensor([2, 0, 0])[:, None]).any(1).double(), "bool")
for gain in (T(5), torch.zeros(5)):
    shift = T(5)
    case("layer_norm", [tw, put(gain, "C"), put(shift, "C")], {"eps": 1e-5}, "NC",
         F.layer_norm(wide, (5,), gain, shift, 1e-5))
for image in (T(4, 3, 5), T(2, 3, 2, 4), T(1, 3, 7)):
    axes = "NCHW"[:image.dim()]
    gain, shift, mean, var = T(3), T(3), T(3), T(3, lo=0.5)
    for training in (True, False):
        case("batch_norm", [put(image, axes)] + [put(v, "C") for v in (gain, shift, mean, var)],
             {"eps": 1e-3, "momentum": 0.9, "training": int(training)}, axes,
             F.batch_norm(image, mean.clone(), var.clone(), gain, shift, training, 0.1, 1e-3))

# every op with a meaning was asked about
# has the cases of these, with their gradients
windows = open(os.path.join(os.path.dirname(__file__), "check_windows.py")).read()
used |= {name for name, _, _ in ops if '"%s", [("' % name in windows or '"%s", window' % name in windows}
from table_rows import rows  # and the oracle over the table those of these
used |= set(rows)
# those are between ranks
missing = [name
           for name, kind, lower in ops if (kind != "HIGH" or lower != "none") and kind not in ("FUSED", "COLLECTIVE")
           and name not in used and name not in ("enter", "scale_gradient")]
failed = ["no case for op %s" % m for m in missing]

with tempfile.TemporaryDirectory() as d:
    with open(d + "/ops.dlir", "w") as f:
        f.write("\n".join(["graph @ops {"] + lines + results + ["}", ""]))
    for name, x in data.items():
        x.detach().contiguous().numpy().astype("<f8").tofile("%s/%s.f64" % (d, name))
    done = subprocess.run([sys.argv[1], d + "/ops.dlir", d], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("interp_run failed: %s" % done.stderr.strip()[-800:])
    for i, expect in enumerate(want):
        got = torch.from_numpy(np.fromfile("%s/out.%d.f64" % (d, i), "<f8")).reshape(expect.shape)
        if not torch.allclose(got, expect, rtol=1e-12, atol=1e-12, equal_nan=True):
            failed.append("%s: got %s, want %s" % (names[i], got.flatten()[:8], expect.flatten()[:8]))

for f in failed:
    print("failed:", f)
print("%d passed, %d failed" % (len(want) + len(ops) - len(failed), len(failed)))
sys.exit(bool(failed))
