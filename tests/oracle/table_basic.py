"""Rows of check_table.py for pointwise ops, constants, reductions and ops that move elements."""
import math

import numpy as np
import torch
import torch.nn.functional as F

from table_samples import (AXES, FLOATS, JOINS, NUMBERS, TORCH, TYPES, WHOLE, binary, by_name, inf, ints, joined, names,
                           nan, row, unary)


def choose(op, s):
    a, b = JOINS[s.i]
    c = s.pick("", a, b)
    (cond, x, y), want = joined(s, (c, a, b), ("bool", None, None))
    return s.case(op, [cond, x, y], {}, want,
                  lambda p, u,
                  v: torch.where(by_name(p, list(c), want), by_name(u, list(a), want), by_name(v, list(b), want)))


row("neg", NUMBERS, unary(torch.neg))
row("abs", NUMBERS, unary(torch.abs))
row("sign", NUMBERS, unary(torch.sign))
row("floor", NUMBERS, unary(torch.floor))
row("relu", NUMBERS, unary(torch.relu))
row("exp", FLOATS, unary(torch.exp))
row("log", FLOATS, unary(torch.log, lo=0.01))
row("expm1", FLOATS, unary(torch.expm1), extra=4)  # y + 1, as PyTorch has it: near 0 where y is near -1
row("log1p", FLOATS, unary(torch.log1p, lo=-0.9), bends=True)
row("rsqrt", FLOATS, unary(torch.rsqrt, lo=0.01), ulps=8)
row("sqrt", FLOATS, unary(torch.sqrt, lo=0.01))
row("tanh", FLOATS, unary(torch.tanh), ulps=8, extra=8)
row("sigmoid", FLOATS, unary(torch.sigmoid), ulps=8, extra=8)
row("sin", FLOATS, unary(torch.sin))
row("cos", FLOATS, unary(torch.cos))
row("erf", FLOATS, unary(torch.erf), bends=True)
row("leaky_relu", FLOATS,
    unary(lambda x, slope: F.leaky_relu(x, slope), attrs=lambda s: {"slope": s.pick(0.01, 0.0, 2.0, 0.3)}))
def elu(x, alpha):
    y = F.elu(x, alpha)  # whose exp(x) - 1 loses digits near 0
    return y + (torch.where(x > 0, x, alpha * torch.expm1(x)) - y).nan_to_num(0, 0, 0).detach()


row("elu", FLOATS, unary(elu, attrs=lambda s: {"alpha": s.pick(1.0, 0.5, 2.0)}), extra=8, tame=True)
row("not", ("bool",), unary(torch.logical_not))
row("stop_gradient", TYPES, unary(lambda x: x.detach()), smooth=False)
row("updated", TYPES, unary(lambda x: x.detach()), smooth=False)


def cast(op, s):
    to = (TYPES[TYPES.index(s.dtype):] + TYPES[:TYPES.index(s.dtype)])[1 + s.i % (len(TYPES) - 1)]
    shape = s.shape()
    x = s.var(shape, special=to in FLOATS)
    kind = torch.float64 if to in FLOATS else TORCH[to]  # each type's own rounding is the judge's
    return s.case(op, [x], {}, AXES[:len(shape)], lambda v: v.to(kind), to)


row("cast", TYPES, cast)
row("add", NUMBERS, binary(torch.add))
row("sub", NUMBERS, binary(torch.sub))
row("mul", NUMBERS, binary(torch.mul))
row("div", FLOATS, binary(torch.div, second={"lo": 0.3}), bends=True)
row("pow", FLOATS, binary(torch.pow, first={"lo": 0.1}), bends=True, ulps=8)
row("atan2", FLOATS, binary(torch.atan2, second={"lo": 0.1}), bends=True)
row("min", NUMBERS, binary(torch.minimum))
row("max", NUMBERS, binary(torch.maximum))
for op in ("eq", "ne", "lt", "le", "gt", "ge"):
    row(op, TYPES, binary(getattr(torch, op), "bool"))
row("and", ("bool",), binary(torch.logical_and))
row("or", ("bool",), binary(torch.logical_or))
row("select", TYPES, choose)


# ---- sources ----


def const(op, s):
    value = s.pick(0, 1, -1, 0.5, 2.0**-100, 3, -7, 0.125, 2.0**24, 2.0**100, -0.0,
                   13) if s.dtype in FLOATS else s.pick(0, 1) if s.dtype == "bool" else s.pick(0, 1, -5, 1000003)
    kind = {"bool": torch.bool, "i32": torch.int64, "i64": torch.int64}.get(s.dtype, torch.float64)
    return s.case(op, [], {"value": value}, "", lambda: torch.tensor(value, dtype=kind))


def count(op, s):
    n = s.pick(0, 1, 2, 3, 5, 7, 13, 17, 31, 64, 101, 1009)
    kind = torch.int64 if s.dtype in WHOLE + ("bool",) else torch.float64
    return s.case(op, [], {"axis": "N"}, "N", lambda: torch.arange(n, dtype=kind))


def philox(seed, step, number, n):
    from oracle_nets import philox as draw
    return draw(seed, step, number, n).double()


def random(op, s):
    shape = s.shape()
    seed, step, number = s.pick(0, 7, 2**40 + 3), s.pick(0, 1, 2**33), s.pick(0, 5)
    counters = [s.fixed(torch.tensor(v), "", "i64") for v in (seed, step)]
    return s.case(op, counters, {"number": number}, AXES[:len(shape)], lambda a,
                  b: philox(seed, step, number, math.prod(shape)).reshape(shape))


row("const", TYPES, const, few=True, skip=())
row("iota", NUMBERS, count)
row("random", ("f32", "f64"), random)


# ---- reductions ----


def reduction(f):
    def make(op, s):
        shape = s.shape() if s.i != 3 else (3, 0) if op in ("sum", "mean", "prod") else (3, 4)
        axes = AXES[:len(shape)]
        over = [a for k, a in enumerate(axes) if (s.i >> k) & 1 or k == 0]
        if op not in ("sum", "mean", "prod"):  # of nothing there is no largest
            over = [a for a in over if shape[axes.index(a)]]
        dims, x = [axes.index(a) for a in over], s.var(shape)
        if op == "prod" and s.dtype in WHOLE:  # whose products fit
            x.values = {draw: torch.where(v % 8 == 0, 2, torch.where(v % 2 == 0, 1, -1))
                        for draw, v in x.values.items()}
        return s.case(op, [x], {"over": names(over)}, [a for a in axes if a not in over],
                      lambda x: f(x, dims) if dims else x * 1)
    return make


def first_largest(x, dims):
    """The gradient is that of the first of the largest, among NaNs of the last, in the order of rows."""
    kept = [d for d in range(x.dim()) if d not in dims]
    n = math.prod(x.shape[d] for d in dims)
    rows_of = x.permute(*kept, *dims).reshape([x.shape[d] for d in kept] + [n])
    if not x.dtype.is_floating_point:
        return rows_of.amax(-1)
    at = torch.where(rows_of.isnan(), torch.arange(n), torch.tensor(-1)).amax(-1)
    at = torch.where(at < 0, rows_of.nan_to_num(-inf, inf, -inf).argmax(-1), at)
    return rows_of.gather(-1, at.unsqueeze(-1)).squeeze(-1)


def product(x, dims):
    for d in sorted(dims, reverse=True):
        x = torch.prod(x, d)
    return x


row("sum", NUMBERS, reduction(torch.sum))
row("mean", FLOATS, reduction(torch.mean))
row("reduce_max", TYPES, reduction(torch.amax))
row("reduce_min", TYPES, reduction(torch.amin))
row("first_max", TYPES, reduction(first_largest))


# ---- moves ----


def broadcast(op, s):
    shape = s.shape()
    axes, n = AXES[:len(shape)], s.pick(1, 2, 0, 5, 3)
    want = s.pick(["T"] + list(axes), list(axes) + ["T"], list(reversed(axes)) + ["T"])
    return s.case(op, [s.var(shape)], {}, want,
                  lambda x: by_name(x, list(axes),
                                    want).expand([n if a == "T" else shape[axes.index(a)] for a in want]))


def with_axis(s):
    shape = s.shape() or (5,)
    return shape, AXES[:len(shape)], s.i % len(shape)


def cut(op, s):
    shape, axes, k = with_axis(s)
    n = shape[k]
    start, stop = s.pick((0, n), (n // 3, n), (0, n // 2), (n // 2, n // 2))
    return s.case(op, [s.var(shape)], {"axis": axes[k], "start": start, "stop": stop}, axes,
                  lambda x: x.narrow(k, start, stop - start))


def pad(op, s):
    shape, axes, k = with_axis(s)
    lo, hi = s.pick((0, 0), (1, 0), (0, 3), (2, 5))
    widths = [0, 0] * (len(shape) - 1 - k) + [lo, hi]
    return s.case(op, [s.var(shape)], {"axis": axes[k], "pad_lo": ints([lo]), "pad_hi": ints([hi])}, axes,
                  lambda x: F.pad(x.double() if x.dtype == torch.bool else x, widths).to(x.dtype))


def cat(op, s):
    shape, axes, k = with_axis(s)
    parts = [s.var(shape[:k] + (n,) + shape[k + 1:])
             for n in ([shape[k], 1, 3], [0, shape[k]], [2], [1, 1, 1, 5])[s.i % 4]]
    return s.case(op, parts, {"axis": axes[k]}, axes, lambda *x: torch.cat(x, k))


def squeeze(op, s):
    shape = list(s.shape())[:3]
    k = s.i % (len(shape) + 1)
    return s.case(op, [s.var(shape[:k] + [1] + shape[k:])], {"axis": AXES[k]},
                  [a for a in AXES[:len(shape) + 1] if a != AXES[k]], lambda x: x.squeeze(k))


def unsqueeze(op, s):
    shape = s.shape()
    k, axes = s.i % (len(shape) + 1), list(AXES[:len(shape)])
    return s.case(op, [s.var(shape)], {"axis": "T", "index": k}, axes[:k] + ["T"] + axes[k:], lambda x: x.unsqueeze(k))


def reshape(op, s):
    shape, to = s.pick(((6,), (2, 3)), ((0, 4), (2, 0)), ((), (1, 1)), ((3, 4, 5), (12, 5)), ((12, 5), (5, 3, 4)),
                       ((7,), (7,)), ((2, 3, 2, 2), (4, 6)),
                       ((13, 1), (13,)), ((1,), ()), ((30,), (5, 1, 6)), ((4, 9), (6, 6)), ((2, 2, 2), (8,)))
    return s.case(op, [s.var(shape)], {}, "ABDE"[:len(to)], lambda x: x.reshape(to))


def relayout(op, s):
    shape = [(2, 3, 5), (1, 1, 7), (2, 5, 3, 1), (3, 17, 2), (1, 13, 1), (2, 1, 4), (0, 3, 2), (2, 3, 2, 3), (1, 33, 2),
             (5, 2, 3), (1, 4, 2, 7), (3, 3, 3)][s.i]
    return s.case(op, [s.var(shape, role="input")], {}, AXES[:len(shape)], lambda x: x, layout=" @cl")


PLACES = {"zero": lambda p, n: p if 0 <= p < n else None, "lowest": lambda p, n: p if 0 <= p < n else None,
          "edge": lambda p, n: min(max(p, 0), n - 1),
          "wrap": lambda p, n: p % n, "reflect": lambda p,
          n: 0 if n == 1 else min(p % (2 * (n - 1)), 2 * (n - 1) - p % (2 * (n - 1)))}


def affine(op, s):
    """Windows, shifts, strides, mirrors and enlargements, gathered by their definition, element by element."""
    n, stride, start, size, div, rule, taps = [
        (7, [1], -2, 9, 1, "zero", 0), (5, [2], 0, 3, 1, "zero", 0), (5, [-1], 4, 5, 1, "zero", 0),
        (4, [1], 0, 8, 2, "zero", 0),
        (6, [2, 1], -1, 3, 1, "zero", 3), (7, [3, 2], -2, 3, 1, "lowest", 2), (5, [1], -3, 11, 1, "wrap", 0),
        (5, [1], -4, 13, 1, "reflect", 0),
        (3, [1], -2, 8, 1, "edge", 0), (1, [1], -1, 3, 1, "reflect", 0), (13, [4, 3], 0, 2, 1, "zero", 2),
        (4, [3], -2, 4, 2, "zero", 0)][s.i]
    if rule == "lowest" and s.dtype not in FLOATS:
        rule = "zero"
    places = [[PLACES[rule]((i * stride[0] + j * (stride[1] if taps else 0) + start) // div, n)
               for j in range(taps or 1)] for i in range(size)]
    fill = -inf if rule == "lowest" else 0

    def f(x):
        at = torch.tensor([[n if p is None else p for p in line] for line in places])
        padded = torch.cat([x, torch.full((2, 1), fill, dtype=x.dtype)], 1)
        y = padded[:, at]
        return y if taps else y[..., 0]
    attrs = {"stride": ints(stride), "start": start, "along": names("CK" if taps else "C"), "div": div, "outside": rule}
    return s.case(op, [s.var((2, n))], attrs, "NCK" if taps else "NC", f)


# axes of what is read, of the numbers, and the numbered one; sizes; beyond: numbers that mean no element, negative ones
# among them
NUMBERED = [("VE", "NT", "V", (7, 3, 2, 5)), ("VE", "", "V", (5, 4, 1, 1)), ("NC", "NK", "C", 0), ("NC", "NC", "C", 1),
            ("V", "N", "V", (1, 1, 13, 1)),
            ("EV", "N", "V", (11, 2, 7, 1)), ("VE", "N", "V", (3, 67, 31, 1)), ("VE", "NT", "V", (4, 3, 0, 5)),
            ("NVE", "NT", "V", (5, 2, 3, 7)),
            ("VEN", "TN", "V", (2, 3, 1, 5)), ("VE", "VN", "V", (3, 5, 2, 1)), ("VE", "N", "V", (101, 1, 17, 1))]


def numbered(s):
    x, n, axis, size = NUMBERED[s.i]
    length = dict(zip("VENT", size)) if isinstance(size, tuple) else {"N": 5, "C": 7, "K": 3}
    # the numbered axis' name may be theirs too
    of_n = dict(length, **({"C": 2} if size == 1 else {"V": 4} if s.i == 10 else {}))
    have = [length[a] for a in x]
    numbers = s.index([of_n[a] for a in n], n, length[axis], s.pick("i32", "i64"))
    for draw in ("special",):
        v = numbers.values[draw]
        numbers.values[draw] = torch.where(torch.from_numpy(np.asarray(s.rng.uniform(0, 1, tuple(v.shape)) < 0.3)),
                                           s.pick(-1, length[axis], -1000, 10**6), v)
    want = list(n) + [a for a in x if a != axis and a not in n]
    return x, list(n), axis, have, length, of_n, numbers, want


def take(x, numbers, axes, n, axis, want, of_n, length):
    """x, whose axes are `axes`, at the numbers: NaN (0) where they mean none."""
    shape = [of_n[a] if a in n else length[a] for a in want]
    at = by_name(numbers, n, want).expand(shape)
    there = (at >= 0) & (at < length[axis])
    places = []
    for a in axes:
        if a == axis:
            places.append(at.clamp(0, length[axis] - 1))
        else:
            places.append(by_name(torch.arange(length[a]), [a], want).expand(shape))
    y = x[tuple(places)] if x.dim() else x.expand(shape)
    return torch.where(there, y,
                       torch.full((), nan, dtype=y.dtype) if y.dtype.is_floating_point
                       else torch.zeros((), dtype=y.dtype))


def gather(op, s):
    x, n, axis, have, length, of_n, numbers, want = numbered(s)
    return s.case(op, [s.var(have, x), numbers], {"axis": axis}, want, lambda v,
                  i: take(v, i, list(x), n, axis, want, of_n, length))


def scatter_add(op, s):
    x, n, axis, have, length, of_n, numbers, want = numbered(s)
    shape = [of_n[a] if a in n else length[a] for a in want]

    def f(v, i):
        at = by_name(i, n, want).expand(shape)
        there = (at >= 0) & (at < length[axis])
        places = [at.clamp(0, length[axis] - 1) if a == axis
                  else by_name(torch.arange(length[a]), [a], want).expand(shape) for a in x]
        return torch.zeros(have, dtype=v.dtype).index_put(places, torch.where(there, v, torch.zeros((), dtype=v.dtype)),
                                                          accumulate=True)
    return s.case(op, [s.var(shape, want), numbers], {"axis": axis}, list(x), f)


def scatter_max(op, s):
    x, n, axis, have, length, of_n, numbers, want = numbered(s)
    shape = [of_n[a] if a in n else length[a] for a in want]

    def f(v, i):  # what is out of range goes to a place of its own
        at = by_name(i, n, want).expand(shape)
        there = (at >= 0) & (at < length[axis])
        flat = torch.zeros(shape, dtype=torch.long)
        for a in x:
            place = (torch.where(there, at.long(), length[axis]) if a == axis
                     else by_name(torch.arange(length[a]), [a], want).expand(shape))
            flat = flat * (length[a] + (a == axis)) + place
        room = [length[a] + (a == axis) for a in x]
        # PyTorch's gradient counts an initial value that is equal as one of the ties
        none = nan if v.dtype.is_floating_point else torch.iinfo(v.dtype).min
        y, some = torch.full(room, none, dtype=v.dtype).flatten(), torch.zeros(math.prod(room), dtype=torch.bool)
        zero = torch.zeros((), dtype=v.dtype)
        y = y.scatter_reduce(0, flat.flatten(), torch.where(there, v, zero).flatten(), "amax", include_self=False)
        y = torch.where(some.scatter(0, flat.flatten(), True), y, zero)
        return y.reshape(room).narrow(list(x).index(axis), 0, length[axis])
    return s.case(op, [s.var(shape, want), numbers], {"axis": axis}, list(x), f)


row("gather", TYPES, gather, linear=True)
row("scatter_add", NUMBERS, scatter_add)
row("scatter_max", NUMBERS, scatter_max)
row("broadcast", TYPES, broadcast)
row("slice", TYPES, cut)
row("pad", TYPES, pad)
row("cat", TYPES, cat,
    refused=[([("f32", "NC", (2, 3)), ("f32", "NC", (3, 3))], {"axis": "C"}, "NC", (2, 6), "cat along C: N is 2")])
row("squeeze", TYPES, squeeze)
row("unsqueeze", TYPES, unsqueeze)
row("rename", TYPES, lambda op, s: s.case(op, [s.var(s.shape())], {}, "ABDE"[:len(s.shape())], lambda x: x))
row("relayout", TYPES, relayout)
row("reshape", TYPES, reshape)
row("affine", TYPES, affine)
