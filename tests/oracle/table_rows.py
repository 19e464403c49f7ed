"""The rows of check_table.py: what PyTorch calls each op of ir/ops.def, and how its operands are drawn.

A new op is a new row:   row("softsign", FLOATS, unary(F.softsign))
  types       element types that its shape rule takes: of the first operand (of the second, for a condition)
  make(op, s) a sample: operands from s.var(shape, axes), then s.case(op, operands, attributes, axes of the result, function)
  ulps        roundings of one result, as promised by the functions it is made of (compiler/cpu/kernels/prelude.c)
  extra       roundings of its gradient that are relative to the incoming one instead (1 - y*y near 1, as PyTorch computes it too)
  bends       its gradient is computed from rounded values: what these do counts (always so for what is not pointwise)
  smooth      central differences say what its gradient is
  refused     [(operands as (type, axes, shape), attributes, axes, shape, words)]: shape faults, sizes of 0 that mean nothing among them
  cancels     f(attributes, dy, operands): the size of what cancels in its gradients, where that is more than dy and the derivative say; one
              for all operands, or a tuple of one for each
  rereads     the same, in 16 bits, of what its gradients make of its own result, which is rounded by then
  tame        gradients are compared where there is no NaN and no infinity: PyTorch's depend on how it divides there
  few         has less to vary than 32 samples
  linear      in each operand, and nothing but products that are added: of magnitudes it makes the size of what is summed, of ones the number of terms
  samples     how many there are of each type, where that is not SHAPES
  skip        draws that say nothing
"""
import itertools
import math
import zlib

import numpy as np
import torch
import torch.nn.functional as F

HALVES, WHOLE = ("f16", "bf16"), ("i32", "i64")
FLOATS = ("f32", "f64") + HALVES
NUMBERS, TYPES = FLOATS + WHOLE, FLOATS + WHOLE + ("bool",)
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i32": torch.int64, "i64": torch.int64, "bool": torch.bool}
DRAWS = ("plain", "ties", "special")
AXES = "NCHW"
BASE = [(), (1,), (7,), (0,), (3, 5), (1, 13), (2, 1, 3), (0, 3), (17,), (2, 3, 1, 5), (31,), (11, 7)]
SHAPES, MODULE_CASES = len(BASE), 240
nan, inf = float("nan"), float("inf")
# Of 16 bits, in `special`: least and other denormals, the least normal number, the largest, what overflows when it is doubled or squared
EDGES = {"f16": [2.0**-24, 1.5e-5, -2.0**-14, 65504.0, -65504.0, 40000.0, -300.0], "bf16": [2.0**-133, 1e-39, -2.0**-126, 1e9, -1e9]}
BEYOND = {"bf16": [2.0**127 * 1.9921875, -2e38]}  # where one element makes one: in sums of products f32 itself overflows, in each order elsewhere
rows = {}


def representable(v, dtype):
    """v rounded to the type, as float64."""
    return torch.as_tensor(v).to(TORCH[dtype]).double()


class Row:
    def __init__(self, types, make, ulps=4, extra=0, bends=None, smooth=True, refused=(), few=False, skip=(), cancels=None, rereads=None, tame=False, multiplies=False, linear=False, samples=SHAPES):
        self.tame, self.multiplies = tame, multiplies  # by instructions for bf16, where there are such
        self.cancels, self.rereads = cancels, rereads
        self.types, self.sample, self.ulps, self.extra, self.smooth, self.few, self.skip = types, make, ulps, extra, smooth, few, skip
        self.refused, self.pointwise, self.asked, self.linear, self.samples = refused, False, bends, linear, samples

    @property
    def bends(self):
        return not self.pointwise if self.asked is None else self.asked


def row(op, types, make, **more):
    assert op not in rows, op
    rows[op] = Row(types, make, **more)


class Operand:
    def __init__(self, dtype, axes, shape, values, role):
        self.dtype, self.axes, self.shape, self.values, self.role, self.name, self.direction = dtype, list(axes), tuple(shape), values, role, None, None


class Case:
    def __init__(self, sampler, op, operands, attrs, axes, f, out, layout):
        self.sampler, self.row, self.op, self.operands, self.attrs = sampler, sampler.row, op, operands, attrs
        self.axes, self.f, self.out, self.layout, self.weight = list(axes), f, out, layout, None
        self.shape = tuple(f(*[o.values["plain"] for o in operands]).shape)
        assert len(self.shape) == len(self.axes), (op, self.shape, axes)

    def shape_count(self):
        return math.prod(self.shape) and all(math.prod(o.shape) for o in self.operands)

    def describe(self):
        return "%s %s" % (" ".join("[%s]" % ", ".join("%s=%d" % a for a in zip(o.axes, o.shape)) for o in self.operands), self.attrs or "")


class Sampler:
    """Draws what one sample of a row consists of; `i` counts the samples of a cell."""

    def __init__(self, row, dtype, i, seed):
        self.row, self.dtype, self.i = row, dtype, i
        self.rng = np.random.default_rng(zlib.crc32(repr((seed, i)).encode()))

    def shape(self):
        return BASE[self.i]

    def numbers(self, draw, shape, dtype, lo, hi, special):
        rng = self.rng
        if dtype == "bool":
            return torch.from_numpy(np.asarray(rng.integers(0, 2, shape), bool))
        if dtype in WHOLE:
            low, high = {"plain": (-9, 10), "ties": (-2, 3), "special": (-1000, 1001)}[draw]
            return torch.from_numpy(np.asarray(rng.integers(max(low, math.floor(lo) if lo >= 0 else low), high, shape), "i8"))
        v = np.asarray(rng.uniform(lo, hi, shape))
        if draw == "ties":
            few = np.array([x for x in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5) if lo <= x <= hi])
            v = few[rng.integers(0, len(few), shape)]
        if draw == "special" and special:
            odd = [nan, inf, -inf, 0.0, -0.0, 1e-30, 30.0, -30.0] + EDGES.get(dtype, []) + (BEYOND.get(dtype, []) if self.row.pointwise else [])
            odd = np.array(odd)[rng.integers(0, len(odd), shape)]
            v = np.where(rng.uniform(0, 1, shape) < 0.4, odd, v)
        return representable(v, dtype)

    def var(self, shape, axes=None, dtype=None, lo=-2.0, hi=2.0, special=True, role=None):
        dtype, axes = dtype or self.dtype, AXES[:len(shape)] if axes is None else axes
        values = {draw: self.numbers(draw, tuple(shape), dtype, lo, hi, special) for draw in DRAWS}
        return Operand(dtype, axes, shape, values, role or ("param" if dtype in FLOATS else "input"))

    def weights(self, shape, axes, dtype):
        o = self.var(shape, axes, dtype, -1, 1, False, "input")
        for draw in DRAWS:  # no ties here, they are those of the operands
            o.values[draw] = o.values["plain"]
        return o

    def index(self, shape, axes, size, dtype="i32"):
        values = {draw: torch.from_numpy(np.asarray(self.rng.integers(0, max(size, 1), tuple(shape)), "i8")) for draw in DRAWS}
        return Operand(dtype, axes, shape, values, "input")

    def fixed(self, value, axes, dtype):
        v = torch.as_tensor(value)
        return Operand(dtype, axes, v.shape, {draw: v for draw in DRAWS}, "input")

    def case(self, op, operands, attrs, axes, f, out=None, layout=""):
        return Case(self, op, operands, attrs, axes, f, out or self.dtype, layout)

    def pick(self, *choices):
        return choices[self.i % len(choices)]


def ints(v):
    return "[%s]" % ", ".join(map(str, v))


def names(v):
    return "[%s]" % ", ".join(v)


def by_name(x, axes, want):
    """x, whose axes have names, under the axes `want`: those it lacks have size 1."""
    order = [axes.index(a) for a in want if a in axes]
    x = x.permute(order) if order else x
    return x.reshape([x.shape[[a for a in want if a in axes].index(a)] if a in axes else 1 for a in want])


# ---- pointwise ----
def unary(f, lo=-2.0, hi=2.0, out=None, attrs=None):
    def make(op, s):
        shape = s.shape()
        more = attrs(s) if attrs else {}
        return s.case(op, [s.var(shape, lo=lo, hi=hi)], more, AXES[:len(shape)], (lambda x: f(x, **more)) if more else f, out)
    return make


# Operands of two or three: alike, scalars, fewer axes, other orders, and axes that only one of them has; 0 and 1 among the sizes
JOINS = [("", ""), ("N", "N"), ("N", ""), ("", "C"), ("NC", "C"), ("NC", "N"), ("NC", "CN"), ("N", "C"), ("NCH", "HN"), ("CH", "NCH"),
         ("N", "N"), ("NCHW", "WC")]
LENGTHS = [dict(zip(AXES, v)) for v in ((1, 1, 1, 1), (7, 2, 3, 1), (0, 3, 1, 1), (3, 13, 1, 1), (3, 5, 1, 1), (1, 11, 1, 1), (5, 3, 1, 1),
                                       (7, 5, 1, 1), (2, 1, 5, 1), (3, 1, 2, 1), (31, 1, 1, 1), (2, 3, 1, 5))]


def joined(s, names_of, dtypes=None, **domain):
    """Operands, and the result's axes: those of the first operand that has them all, else as they come."""
    size, every = LENGTHS[s.i], set("".join(names_of))
    want = list(next((n for n in names_of if set(n) == every), ""))
    for n in names_of:
        want += [a for a in n if a not in want]
    operands = [s.var([size[a] for a in n], n, dtype, **domain) for n, dtype in zip(names_of, dtypes or [None] * len(names_of))]
    return operands, want


def binary(f, out=None, first=None, second=None):
    def make(op, s):
        a, b = JOINS[s.i]
        (x, _), want = joined(s, (a, b))
        x, y = s.var(x.shape, a, **(first or {})), s.var([LENGTHS[s.i][n] for n in b], b, **(second or {}))
        return s.case(op, [x, y], {}, want, lambda u, v: f(by_name(u, list(a), want), by_name(v, list(b), want)), out)
    return make


def choose(op, s):
    a, b = JOINS[s.i]
    c = s.pick("", a, b)
    (cond, x, y), want = joined(s, (c, a, b), ("bool", None, None))
    return s.case(op, [cond, x, y], {}, want,
                  lambda p, u, v: torch.where(by_name(p, list(c), want), by_name(u, list(a), want), by_name(v, list(b), want)))


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
row("leaky_relu", FLOATS, unary(lambda x, slope: F.leaky_relu(x, slope), attrs=lambda s: {"slope": s.pick(0.01, 0.0, 2.0, 0.3)}))
def elu(x, alpha):
    y = F.elu(x, alpha)  # whose exp(x) - 1 loses digits near 0
    return y + (torch.where(x > 0, x, alpha * torch.expm1(x)) - y).nan_to_num(0, 0, 0).detach()


row("elu", FLOATS, unary(elu, attrs=lambda s: {"alpha": s.pick(1.0, 0.5, 2.0)}), extra=8, tame=True)
row("not", ("bool",), unary(torch.logical_not))
row("stop_gradient", TYPES, unary(lambda x: x.detach()), smooth=False)


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
row("min", NUMBERS, binary(torch.minimum))
row("max", NUMBERS, binary(torch.maximum))
for op in ("eq", "ne", "lt", "le", "gt", "ge"):
    row(op, TYPES, binary(getattr(torch, op), "bool"))
row("and", ("bool",), binary(torch.logical_and))
row("or", ("bool",), binary(torch.logical_or))
row("select", TYPES, choose)


# ---- sources ----
def const(op, s):
    value = s.pick(0, 1, -1, 0.5, 2.0**-100, 3, -7, 0.125, 2.0**24, 2.0**100, -0.0, 13) if s.dtype in FLOATS else s.pick(0, 1) if s.dtype == "bool" else s.pick(0, 1, -5, 1000003)
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
    return s.case(op, counters, {"number": number}, AXES[:len(shape)], lambda a, b: philox(seed, step, number, math.prod(shape)).reshape(shape))


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
            x.values = {draw: torch.where(v % 8 == 0, 2, torch.where(v % 2 == 0, 1, -1)) for draw, v in x.values.items()}
        return s.case(op, [x], {"over": names(over)}, [a for a in axes if a not in over], lambda x: f(x, dims) if dims else x * 1)
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
    return s.case(op, [s.var(shape)], {}, want, lambda x: by_name(x, list(axes), want).expand([n if a == "T" else shape[axes.index(a)] for a in want]))


def with_axis(s):
    shape = s.shape() or (5,)
    return shape, AXES[:len(shape)], s.i % len(shape)


def cut(op, s):
    shape, axes, k = with_axis(s)
    n = shape[k]
    start, stop = s.pick((0, n), (n // 3, n), (0, n // 2), (n // 2, n // 2))
    return s.case(op, [s.var(shape)], {"axis": axes[k], "start": start, "stop": stop}, axes, lambda x: x.narrow(k, start, stop - start))


def pad(op, s):
    shape, axes, k = with_axis(s)
    lo, hi = s.pick((0, 0), (1, 0), (0, 3), (2, 5))
    widths = [0, 0] * (len(shape) - 1 - k) + [lo, hi]
    return s.case(op, [s.var(shape)], {"axis": axes[k], "pad_lo": ints([lo]), "pad_hi": ints([hi])}, axes,
                  lambda x: F.pad(x.double() if x.dtype == torch.bool else x, widths).to(x.dtype))


def cat(op, s):
    shape, axes, k = with_axis(s)
    parts = [s.var(shape[:k] + (n,) + shape[k + 1:]) for n in ([shape[k], 1, 3], [0, shape[k]], [2], [1, 1, 1, 5])[s.i % 4]]
    return s.case(op, parts, {"axis": axes[k]}, axes, lambda *x: torch.cat(x, k))


def squeeze(op, s):
    shape = list(s.shape())[:3]
    k = s.i % (len(shape) + 1)
    return s.case(op, [s.var(shape[:k] + [1] + shape[k:])], {"axis": AXES[k]}, [a for a in AXES[:len(shape) + 1] if a != AXES[k]], lambda x: x.squeeze(k))


def unsqueeze(op, s):
    shape = s.shape()
    k, axes = s.i % (len(shape) + 1), list(AXES[:len(shape)])
    return s.case(op, [s.var(shape)], {"axis": "T", "index": k}, axes[:k] + ["T"] + axes[k:], lambda x: x.unsqueeze(k))


def reshape(op, s):
    shape, to = s.pick(((6,), (2, 3)), ((0, 4), (2, 0)), ((), (1, 1)), ((3, 4, 5), (12, 5)), ((12, 5), (5, 3, 4)), ((7,), (7,)), ((2, 3, 2, 2), (4, 6)),
                       ((13, 1), (13,)), ((1,), ()), ((30,), (5, 1, 6)), ((4, 9), (6, 6)), ((2, 2, 2), (8,)))
    return s.case(op, [s.var(shape)], {}, "ABDE"[:len(to)], lambda x: x.reshape(to))


def relayout(op, s):
    shape = [(2, 3, 5), (1, 1, 7), (2, 5, 3, 1), (3, 17, 2), (1, 13, 1), (2, 1, 4), (0, 3, 2), (2, 3, 2, 3), (1, 33, 2), (5, 2, 3), (1, 4, 2, 7), (3, 3, 3)][s.i]
    return s.case(op, [s.var(shape, role="input")], {}, AXES[:len(shape)], lambda x: x, layout=" @cl")


PLACES = {"zero": lambda p, n: p if 0 <= p < n else None, "lowest": lambda p, n: p if 0 <= p < n else None, "edge": lambda p, n: min(max(p, 0), n - 1),
          "wrap": lambda p, n: p % n, "reflect": lambda p, n: 0 if n == 1 else min(p % (2 * (n - 1)), 2 * (n - 1) - p % (2 * (n - 1)))}


def affine(op, s):
    """Windows, shifts, strides, mirrors and enlargements, gathered by their definition, element by element."""
    n, stride, start, size, div, rule, taps = [
        (7, [1], -2, 9, 1, "zero", 0), (5, [2], 0, 3, 1, "zero", 0), (5, [-1], 4, 5, 1, "zero", 0), (4, [1], 0, 8, 2, "zero", 0),
        (6, [2, 1], -1, 3, 1, "zero", 3), (7, [3, 2], -2, 3, 1, "lowest", 2), (5, [1], -3, 11, 1, "wrap", 0), (5, [1], -4, 13, 1, "reflect", 0),
        (3, [1], -2, 8, 1, "edge", 0), (1, [1], -1, 3, 1, "reflect", 0), (13, [4, 3], 0, 2, 1, "zero", 2), (4, [3], -2, 4, 2, "zero", 0)][s.i]
    if rule == "lowest" and s.dtype not in FLOATS:
        rule = "zero"
    places = [[PLACES[rule]((i * stride[0] + j * (stride[1] if taps else 0) + start) // div, n) for j in range(taps or 1)] for i in range(size)]
    fill = -inf if rule == "lowest" else 0

    def f(x):
        at = torch.tensor([[n if p is None else p for p in line] for line in places])
        padded = torch.cat([x, torch.full((2, 1), fill, dtype=x.dtype)], 1)
        y = padded[:, at]
        return y if taps else y[..., 0]
    attrs = {"stride": ints(stride), "start": start, "along": names("CK" if taps else "C"), "div": div, "outside": rule}
    return s.case(op, [s.var((2, n))], attrs, "NCK" if taps else "NC", f)


# axes of what is read, of the numbers, and the numbered one; sizes; beyond: numbers that mean no element, negative ones among them
NUMBERED = [("VE", "NT", "V", (7, 3, 2, 5)), ("VE", "", "V", (5, 4, 1, 1)), ("NC", "NK", "C", 0), ("NC", "NC", "C", 1), ("V", "N", "V", (1, 1, 13, 1)),
            ("EV", "N", "V", (11, 2, 7, 1)), ("VE", "N", "V", (3, 67, 31, 1)), ("VE", "NT", "V", (4, 3, 0, 5)), ("NVE", "NT", "V", (5, 2, 3, 7)),
            ("VEN", "TN", "V", (2, 3, 1, 5)), ("VE", "VN", "V", (3, 5, 2, 1)), ("VE", "N", "V", (101, 1, 17, 1))]


def numbered(s):
    x, n, axis, size = NUMBERED[s.i]
    length = dict(zip("VENT", size)) if isinstance(size, tuple) else {"N": 5, "C": 7, "K": 3}
    of_n = dict(length, **({"C": 2} if size == 1 else {"V": 4} if s.i == 10 else {}))  # the numbered axis' name may be theirs too
    have = [length[a] for a in x]
    numbers = s.index([of_n[a] for a in n], n, length[axis], s.pick("i32", "i64"))
    for draw in ("special",):
        v = numbers.values[draw]
        numbers.values[draw] = torch.where(torch.from_numpy(np.asarray(s.rng.uniform(0, 1, tuple(v.shape)) < 0.3)), s.pick(-1, length[axis], -1000, 10**6), v)
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
    return torch.where(there, y, torch.full((), nan, dtype=y.dtype) if y.dtype.is_floating_point else torch.zeros((), dtype=y.dtype))


def gather(op, s):
    x, n, axis, have, length, of_n, numbers, want = numbered(s)
    return s.case(op, [s.var(have, x), numbers], {"axis": axis}, want, lambda v, i: take(v, i, list(x), n, axis, want, of_n, length))


def scatter_add(op, s):
    x, n, axis, have, length, of_n, numbers, want = numbered(s)
    shape = [of_n[a] if a in n else length[a] for a in want]

    def f(v, i):
        at = by_name(i, n, want).expand(shape)
        there = (at >= 0) & (at < length[axis])
        places = [at.clamp(0, length[axis] - 1) if a == axis else by_name(torch.arange(length[a]), [a], want).expand(shape) for a in x]
        return torch.zeros(have, dtype=v.dtype).index_put(places, torch.where(there, v, torch.zeros((), dtype=v.dtype)), accumulate=True)
    return s.case(op, [s.var(shape, want), numbers], {"axis": axis}, list(x), f)


row("gather", TYPES, gather, linear=True)
row("scatter_add", NUMBERS, scatter_add)
row("broadcast", TYPES, broadcast)
row("slice", TYPES, cut)
row("pad", TYPES, pad)
row("cat", TYPES, cat, refused=[([("f32", "NC", (2, 3)), ("f32", "NC", (3, 3))], {"axis": "C"}, "NC", (2, 6), "cat along C: N is 2")])
row("squeeze", TYPES, squeeze)
row("unsqueeze", TYPES, unsqueeze)
row("rename", TYPES, lambda op, s: s.case(op, [s.var(s.shape())], {}, "ABDE"[:len(s.shape())], lambda x: x))
row("relayout", TYPES, relayout)
row("reshape", TYPES, reshape)
row("affine", TYPES, affine)


# ---- contractions ----
def contract(op, s):
    a, b, over, size = [("NK", "CK", "K", (3, 1, 5, 7)), ("K", "K", "K", (1, 1, 1, 13)), ("NCK", "NHK", "K", (2, 3, 5, 7)), ("N", "C", "", (5, 7, 1, 1)),
                        ("NK", "CK", "K", (3, 5, 1, 0)), ("NK", "CK", "K", (0, 5, 1, 3)), ("NHK", "KHN", "HK", (2, 1, 3, 5)), ("NCK", "K", "K", (2, 7, 1, 3)),
                        ("CNK", "KHN", "K", (3, 2, 17, 1)), ("NK", "KC", "K", (1, 31, 1, 11)), ("NCH", "HCN", "NCH", (2, 3, 5, 1)), ("NK", "HCK", "K", (3, 2, 2, 17))][s.i]
    length = dict(zip("NCHK", size))
    want = [n for n in a if n not in over] + [n for n in b if n not in over and n not in a]
    return s.case(op, [s.var([length[n] for n in a], a), s.var([length[n] for n in b], b)], {"over": names(over)}, want,
                  lambda x, y: torch.einsum("%s,%s->%s" % (a, b, "".join(want)), x, y))


# spatial sizes, taps, stride, padding before and behind, dilation, groups, channels in and out, batch
WINDOWS = [((9,), (4,), (2,), (1,), (1,), (1,), 1, 3, 4, 2), ((5,), (1,), (1,), (0,), (0,), (1,), 1, 1, 1, 1), ((11,), (3,), (1,), (2,), (2,), (2,), 3, 6, 3, 1),
           ((7, 6), (3, 2), (2, 1), (1, 0), (2, 1), (1, 1), 1, 3, 5, 2), ((7, 5), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 5, 5, 5, 1),
           ((1,), (1,), (1,), (0,), (0,), (1,), 2, 2, 4, 3), ((5, 4, 3), (2, 3, 1), (3, 1, 2), (0, 2, 0), (3, 0, 1), (1, 1, 1), 1, 2, 3, 1),
           ((2, 2, 2), (4, 4, 4), (2, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1, 1, 2, 1), ((13,), (2,), (3,), (0,), (4,), (5,), 1, 2, 7, 1),
           ((3, 11), (1, 5), (1, 4), (0, 2), (0, 2), (1, 2), 1, 17, 3, 1), ((7,), (3,), (1,), (1,), (1,), (1,), 1, 3, 2, 0), ((6, 7), (2, 2), (2, 3), (0, 0), (0, 0), (1, 1), 2, 4, 6, 2),
           # patches side by side along W
           ((5, 12), (2, 4), (1, 4), (1, 0), (0, 0), (1, 1), 1, 5, 34, 2), ((15,), (5,), (5,), (0,), (0,), (1,), 1, 6, 2, 2),
           # wide groups: 16 channels to 24, and to 48
           ((9,), (3,), (1,), (1,), (1,), (1,), 2, 32, 48, 2), ((5, 6), (3, 3), (2, 1), (1, 1), (1, 1), (1, 1), 3, 48, 144, 1)]
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
        conv = lambda x, w: CONV[d - 1](F.pad(x, [v for i in reversed(range(d)) for v in (lo[i], hi[i])]), w, stride=stride, dilation=dilation, groups=groups)
        # no infinities where they meet the zeros of the padding, which some multiply
        x = lambda: s.var((n, c, *sizes), ["N", "C", *spatial])
        w = lambda: s.var((o, c // groups, *k), ["O", "C", *taps], special=False)
        y = lambda: s.var((n, o, *out), ["N", "C", *spatial], special=False)
        more = {**({"dilation": ints(dilation)} if max(dilation) > 1 else {}), **({"groups": groups} if groups > 1 else {})}
        if made == "Y":
            return s.case(op, [x(), w()], {**attrs, **more}, ["N", "C", *spatial], conv)

        def derivative(a, b):  # linear in each operand: PyTorch's own transposed forms, by its autograd
            with torch.enable_grad():
                at = torch.zeros((n, c, *sizes) if made == "X" else (o, c // groups, *k), dtype=a.dtype, requires_grad=True)
                made_y = conv(at, b) if made == "X" else conv(a, at)
                return torch.autograd.grad(made_y, at, a if made == "X" else b, create_graph=True)[0]
        if made == "X":
            return s.case(op, [y(), w()], {**attrs, "size": ints(sizes), **more}, ["N", "C", *spatial], derivative)
        return s.case(op, [x(), y()], {**attrs, "kernel": ints(k), **more}, ["O", "C", *taps], derivative)
    return make


row("contract", FLOATS, contract, multiplies=True, linear=True)
for op, made in (("conv", "Y"), ("conv_grad_input", "X"), ("conv_grad_weight", "W")):
    row(op, FLOATS, windows(made), multiplies=True, linear=True, samples=len(WINDOWS))
rows["conv"].refused = [([("f32", "NCW", (1, 2, 0)), ("f32", ["O", "C", "kW"], (3, 2, 3))], {"stride": "[1]", "pad_lo": "[0]", "pad_hi": "[0]"}, "NCW", (1, 3, 1), "W"),
                        ([("f32", "NCW", (1, 2, 5)), ("f32", ["O", "C", "kW"], (3, 4, 3))], {"stride": "[1]", "pad_lo": "[0]", "pad_hi": "[0]"}, "NCW", (1, 3, 3), "channels")]


# ---- composites ----
def linear(op, s):
    shape, o = s.pick((3,), (1, 1), (2, 5), (0, 3), (2, 3, 7), (13, 5), (1, 17), (4, 0), (2, 1, 3, 2), (7, 31), (11, 3), (5, 1)), s.pick(4, 1, 7, 3, 13)
    axes = "NTHE"[4 - len(shape):]
    return s.case(op, [s.var(shape, axes), s.var((o, shape[-1]), "OE")], {}, axes, F.linear)


def along(f, dtype=None, some=False, **values):
    def make(op, s):
        shape, axes, k = with_axis(s)
        if some:
            shape = tuple(n or 3 if i == k else n for i, n in enumerate(shape))
        return s.case(op, [s.var(shape, **values)], {"axis": axes[k]}, [a for i, a in enumerate(axes) if i != k or not some], lambda x: f(x, k), dtype)
    return make


def layer_norm(op, s):
    shape = s.pick((5,), (3, 7), (1, 13), (2, 3, 5), (0, 3), (7, 2), (2, 1, 2, 17), (31,), (11, 3), (4, 1, 6), (2, 2, 2), (1, 64))
    axes = AXES[:len(shape)]
    return s.case(op, [s.var(shape), s.var(shape[-1:], axes[-1:], special=False), s.var(shape[-1:], axes[-1:], special=False)], {"eps": s.pick(1e-5, 1e-3)}, axes,
                  lambda x, w, b: F.layer_norm(x, shape[-1:], w, b, s.pick(1e-5, 1e-3)))


IMAGES = [(2, 4, 3), (1, 2, 7), (3, 1, 5), (2, 3, 1, 5), (5, 2), (7, 3, 2), (2, 6, 2, 2), (1, 4, 3, 3), (13, 2), (2, 5, 7), (3, 2, 2, 2), (2, 8, 3)]


def norm_sizes(over):
    """A deviation is of the size of x and divided by the spread, which may be as small as sqrt(eps) = 0.003; so is each term of the gradient,
    though of two elements alone nothing remains: 1 and -1 do not move."""
    def sizes(attrs, dy, x, w, *rest):
        spread = over(x).clamp(min=1e-5).sqrt()
        return (dy.abs().max() * w.abs().max().clamp(min=1) / spread * (1 + x.abs().max() / spread)).item()
    return sizes


def batch_norm(op, s):
    shape, eps, training = IMAGES[s.i], s.pick(1e-5, 1e-3), s.pick(1, 1, 0, 0)
    c = shape[1:2]
    parts = [s.var(shape), s.var(c, "C", special=False), s.var(c, "C", special=False), s.var(c, "C", role="input", special=bool(training)), s.var(c, "C", role="input", lo=0.5)]
    # PyTorch has no gradient of the running statistics, and refuses to be asked for one
    return s.case(op, parts, {"eps": eps, "momentum": 0.9, "training": training}, AXES[:len(shape)],
                  lambda x, w, b, m, v: F.batch_norm(x, *(None, None) if training else (m.detach(), v.detach()), w, b, bool(training), 0.1, eps))


def batch_mean(op, s):
    shape, correction = IMAGES[s.i], s.pick(0, 1, 2)
    dims = [0, *range(2, len(shape))]
    count = math.prod(shape[d] for d in dims)
    return s.case(op, [s.var(shape)], {"over": names([AXES[d] for d in dims]), "correction": correction}, AXES[1:2], lambda x: x.sum(dims) / max(count - correction, 1))


def group_norm(op, s):
    shape, eps = IMAGES[s.i], s.pick(1e-5, 1e-3)
    groups = max(g for g in range(1, shape[1] + 1) if shape[1] % g == 0 and (g <= 2 or s.i % 2) and math.prod(shape[1:]) // g > 1)
    c = shape[1:2]
    return s.case(op, [s.var(shape), s.var(c, "C", special=False), s.var(c, "C", special=False)], {"eps": eps, "groups": groups}, AXES[:len(shape)], lambda x, w, b: F.group_norm(x, groups, w, b, eps))


def dropped(whole):
    def make(op, s):
        shape = s.shape()
        rate = s.pick(0.0, 1.0)  # where nothing is drawn by chance; what is drawn check_ops.py compares
        return s.case(op, [s.var(shape)], {"rate": rate}, AXES[:len(shape)], lambda x: x * (1 - rate))
    return make


# spatial sizes, window, stride, padding, dilation
POOLS = [((7,), (3,), (2,), (1,), (1,)), ((1,), (1,), (1,), (0,), (1,)), ((5,), (5,), (1,), (2,), (1,)), ((11,), (2,), (3,), (0,), (1,)), ((13,), (4,), (2,), (2,), (3,)),
         ((2,), (2,), (5,), (1,), (1,)), ((6, 6), (2, 2), (2, 2), (0, 0), (1, 1)), ((7, 5), (3, 3), (2, 2), (1, 1), (1, 1)), ((4, 9), (3, 2), (1, 3), (0, 1), (1, 2)),
         ((5, 3), (4, 3), (3, 1), (2, 1), (1, 1)), ((3, 4, 5), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1)), ((2, 5, 3), (2, 1, 3), (2, 3, 1), (1, 0, 1), (1, 1, 1))]


def image_axes(sizes):
    return "NC" + "DHW"[3 - len(sizes):]


def max_pool(op, s):
    size, k, stride, p, d = POOLS[s.i]
    f, ceil = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(size) - 1], s.i // 2 % 2
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size))],
                  {"stride": ints(stride), "pad_lo": ints(p), "pad_hi": ints(p), "kernel": ints(k), "dilation": ints(d), **({"ceil": 1} if ceil else {})}, image_axes(size),
                  lambda x: f(x, k, stride, p, d, bool(ceil)))


def avg_pool(op, s):
    size, k, stride, p, _ = POOLS[s.i]
    f, ceil = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(size) - 1], s.i // 2 % 2
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size))],
                  {"stride": ints(stride), "pad_lo": ints(p), "pad_hi": ints(p), "kernel": ints(k), "counts_pad": s.i % 2, **({"ceil": 1} if ceil else {})}, image_axes(size),
                  lambda x: f(x, k, stride, p, bool(ceil), bool(s.i % 2)))


SIZES = [((6,), (3,)), ((7,), (3,)), ((5,), (5,)), ((3,), (7,)), ((1,), (4,)), ((13,), (1,)), ((6, 7), (4, 2)), ((5, 4), (4, 3)), ((3, 4, 5), (2, 6, 1)), ((7, 2, 3), (5, 1, 3)),
         ((17,), (11,)), ((2, 3), (4, 6))]


def adaptive(op, s):
    size, to = SIZES[s.i]
    f = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[len(size) - 1]
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size))], {"size": ints(to)}, image_axes(size), lambda x: f(x, to))


def upsample(op, s):
    size, to = SIZES[s.i]
    mode, corners = s.pick("nearest", "linear", "linear"), s.i % 3 == 2
    torch_mode = "nearest" if mode == "nearest" else ("linear", "bilinear", "trilinear")[len(size) - 1]
    # a neighbour of weight 0 is not read here; PyTorch's linear forms multiply an infinity by it
    return s.case(op, [s.var((s.pick(2, 1), s.pick(1, 3), *size), image_axes(size), special=mode == "nearest")], {"size": ints(to), "mode": mode, "corners": int(corners)}, image_axes(size),
                  lambda x: F.interpolate(x, to, mode=torch_mode, **({} if mode == "nearest" else {"align_corners": corners})))


def attention(op, s):
    n, t, e, h = [(2, 5, 6, 3), (1, 1, 4, 2), (1, 4, 48, 1), (3, 2, 7, 7), (1, 7, 2, 1), (2, 3, 4, 4), (1, 13, 3, 1), (2, 1, 6, 2), (1, 5, 10, 5), (0, 3, 4, 2), (1, 3, 11, 1), (2, 2, 8, 2)][s.i]

    def f(*qkv):
        q, k, v = (x.reshape(n, t, h, e // h).transpose(1, 2) for x in qkv[:3])
        scores = q @ k.transpose(2, 3) / math.sqrt(e // h) + sum(qkv[3:])
        blind = (scores == -math.inf).all(3, keepdim=True) & (len(qkv) > 3)  # no key is seen: zeros, as in scaled_dot_product_attention
        return ((torch.softmax(scores.masked_fill(blind, 0), 3) * ~blind) @ v).transpose(1, 2).reshape(n, t, e)
    bias = {0: [(1, h, t, t)], 3: [(n, 1, 1, t)], 5: [(n, h, t, t)], 8: [(1, 1, t, t), (1, h, 1, t)]}.get(s.i, [])
    return s.case(op, [s.var((n, t, e), "NTE") for _ in range(3)] + [s.var(b, "BHQK") for b in bias], {"rate": 0, "heads": h}, "NTE", f)


def attention_sizes(attrs, dy, q, k, v, *bias):
    """q and k have their gradients from p (v dy - y dy), two sums over a head's channels of which nothing may remain (all of it with one token,
    where y is v), though each is rounded: what either adds up in magnitude, times p and the scale, times what it is multiplied by then. In 16 bits y is read as it
    was stored, as in the algorithm's source (Dao et al. 2022, FlashAttention, algorithm 4)."""
    n, t, e = q.shape
    h = attrs["heads"]
    q, k, v, dy = (x.reshape(n, x.shape[1], h, e // h).transpose(1, 2) for x in (q, k, v, dy))
    scale = 1 / math.sqrt(e // h)
    p = torch.softmax(q @ k.transpose(2, 3) * scale + sum(bias), 3)
    ds = p * (dy.abs() @ v.abs().transpose(2, 3) + (dy * (p @ v)).abs().sum(3, keepdim=True)) * scale
    whole = lambda x: x.transpose(1, 2).reshape(n, -1, e)
    return (whole(ds @ k.abs()), whole(ds.transpose(2, 3) @ q.abs()), 0.0, *((ds / scale).sum_to_size(b.shape) for b in bias))


def rearrange(op, s):
    shape, axes, pattern, to, f = s.pick(
        ((2, 6, 8), "NTC", "n (h=2 w=3) (p=2 q=2 c=2) -> n c (h p) (w q)", "NCHW", lambda x: x.reshape(2, 2, 3, 2, 2, 2).permute(0, 5, 1, 3, 2, 4).reshape(2, 2, 4, 6)),
        ((2, 3, 1, 5), "NCHW", "n c h w -> n (h w) c", "NTC", lambda x: x.flatten(2).transpose(1, 2)),
        ((7, 3), "NC", "n c -> c n", "CN", lambda x: x.t()),
        ((0, 3, 2), "NCW", "n c w -> n (c w)", "NC", lambda x: x.flatten(1)))
    return s.case(op, [s.var(shape, axes)], {"pattern": '"%s"' % pattern}, to, f)


def scores(s, shape=None):
    n, c = shape or s.pick((3, 5), (1, 2), (7, 13), (2, 1), (5, 3), (1, 31), (11, 7))
    return s.var((n, c), "NC"), s.index((n,), "N", c, s.pick("i32", "i64")), n, c


def cross_entropy(op, s):
    x, t, n, c = scores(s)
    if s.i % 3 == 2:  # shares of the classes
        return s.case(op, [x, s.var((n, c), "NC")], {"axis": "C"}, "N", lambda v, u: -(torch.log_softmax(v, 1) * u).sum(1))
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
                            attrs=lambda s: s.pick({"low": -1, "high": 1}, {"low": 0}, {"high": 1}, {"low": 1, "high": -1})))
row("prod", NUMBERS, reduction(product), tame=True)
row("cumsum", NUMBERS, along(lambda x, k: torch.cumsum(x, k)))
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
row("attention", FLOATS, attention, multiplies=True, cancels=attention_sizes, rereads=attention_sizes)
row("rearrange", TYPES, rearrange)
row("cross_entropy", FLOATS, cross_entropy)
row("argmax", TYPES, along(lambda x, k: x.double().argmax(k), "i32", True), refused=[([("f32", "NC", (3, 0))], {"axis": "C"}, "N", (3,), "argmax needs at least one element along C")])
# No function of its operands' values, but of what is between them: check_gradients.py.
row("grad", (), lambda op, s: None, few=True)
row("in_top_k", FLOATS, in_top_k)
# A kernel: what every other op is computed in here, compiled.
row("fused", (), lambda op, s: None, few=True)
# Templates, which have several results: `attention` becomes these above, forward and backward, whose first results it sees; their other results,
# the causal ones, other numbers of keys and dropout check_ops.py compares with PyTorch and tests/unit/test_attention.c, compiled, with the interpreter.
for op in ("flash_attention", "flash_attention_grad", "flash_attention_bias_grad"):
    row(op, (), lambda op, s: None, few=True)
# Along one axis, and products of such: check_fourier.py compares all modes with torch.fft, compiled.
for op in ("fourier", "complex_contract"):
    row(op, (), lambda op, s: None, few=True)
# Between ranks: tests/unit/test_shard.c holds them, forward and backward, to whole graphs in double precision, tests/ranks real ones to one rank.
for op in ("all_reduce", "all_gather", "reduce_scatter", "shift", "enter", "scale_gradient"):
    row(op, (), lambda op, s: None, few=True)
