"""How the operands of table_rows.py's ops are drawn: element types, shapes, values, and what a row says of its op."""
import math
import zlib

import numpy as np
import torch

HALVES, WHOLE = ("f16", "bf16"), ("i32", "i64")
FLOATS = ("f32", "f64") + HALVES
NUMBERS, TYPES = FLOATS + WHOLE, FLOATS + WHOLE + ("bool",)
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i32": torch.int64,
         "i64": torch.int64, "bool": torch.bool}
DRAWS = ("plain", "ties", "special")
AXES = "NCHW"
BASE = [(), (1,), (7,), (0,), (3, 5), (1, 13), (2, 1, 3), (0, 3), (17,), (2, 3, 1, 5), (31,), (11, 7)]
SHAPES, MODULE_CASES = len(BASE), 240
nan, inf = float("nan"), float("inf")
# Of 16 bits, in `special`: least and other denormals, the least normal number, the largest, what overflows when it is
# doubled or squared
EDGES = {"f16": [2.0**-24, 1.5e-5, -2.0**-14, 65504.0, -65504.0, 40000.0, -300.0],
         "bf16": [2.0**-133, 1e-39, -2.0**-126, 1e9, -1e9]}
# where one element makes one: in sums of products f32 itself overflows, in each order elsewhere
BEYOND = {"bf16": [2.0**127 * 1.9921875, -2e38]}
rows = {}


def representable(v, dtype):
    """v rounded to the type, as float64."""
    return torch.as_tensor(v).to(TORCH[dtype]).double()


class Row:
    def __init__(self, types, make, ulps=4, extra=0, bends=None, smooth=True, refused=(), few=False, skip=(),
                 cancels=None, rereads=None, exponents=None, tame=False, multiplies=False, linear=False,
                 samples=SHAPES):
        self.tame, self.multiplies = tame, multiplies  # by instructions for bf16, where there are such
        self.cancels, self.rereads, self.exponents = cancels, rereads, exponents
        self.types, self.sample, self.ulps, self.extra = types, make, ulps, extra
        self.smooth, self.few, self.skip = smooth, few, skip
        self.refused, self.pointwise, self.asked, self.linear, self.samples = refused, False, bends, linear, samples

    @property
    def bends(self):
        return not self.pointwise if self.asked is None else self.asked


def row(op, types, make, **more):
    assert op not in rows, op
    rows[op] = Row(types, make, **more)


class Operand:
    def __init__(self, dtype, axes, shape, values, role):
        self.dtype, self.axes, self.shape, self.values, self.role, self.name, self.direction = dtype, list(axes), tuple(
            shape), values, role, None, None


class Case:
    def __init__(self, sampler, op, operands, attrs, axes, f, out, layout):
        self.sampler, self.row, self.op, self.operands, self.attrs = sampler, sampler.row, op, operands, attrs
        self.axes, self.f, self.out, self.layout, self.weight = list(axes), f, out, layout, None
        self.shape = tuple(f(*[o.values["plain"] for o in operands]).shape)
        assert len(self.shape) == len(self.axes), (op, self.shape, axes)

    def shape_count(self):
        return math.prod(self.shape) and all(math.prod(o.shape) for o in self.operands)

    def describe(self):
        return "%s %s" % (" ".join("[%s]" % ", ".join("%s=%d" % a for a in zip(o.axes, o.shape))
                                   for o in self.operands), self.attrs or "")


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
            return torch.from_numpy(np.asarray(rng.integers(max(low, math.floor(lo) if lo >= 0 else low), high, shape),
                                               "i8"))
        v = np.asarray(rng.uniform(lo, hi, shape))
        if draw == "ties":
            few = np.array([x for x in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5) if lo <= x <= hi])
            v = few[rng.integers(0, len(few), shape)]
        if draw == "special" and special:
            odd = [nan, inf, -inf, 0.0, -0.0, 1e-30, 30.0, -30.0] + EDGES.get(dtype,
                                                                              []) + (BEYOND.get(dtype, [])
                                                                                     if self.row.pointwise else [])
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
        values = {draw: torch.from_numpy(np.asarray(self.rng.integers(0, max(size, 1), tuple(shape)), "i8"))
                  for draw in DRAWS}
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
        return s.case(op, [s.var(shape, lo=lo, hi=hi)], more, AXES[:len(shape)],
                      (lambda x: f(x, **more)) if more else f, out)
    return make


# Operands of two or three: alike, scalars, fewer axes, other orders, and axes that only one of them has; 0 and 1 among
# the sizes
JOINS = [("", ""), ("N", "N"), ("N", ""), ("", "C"), ("NC", "C"), ("NC", "N"), ("NC", "CN"), ("N", "C"), ("NCH", "HN"),
         ("CH", "NCH"),
         ("N", "N"), ("NCHW", "WC")]
LENGTHS = [dict(zip(AXES, v))
           for v in ((1, 1, 1, 1), (7, 2, 3, 1), (0, 3, 1, 1), (3, 13, 1, 1), (3, 5, 1, 1), (1, 11, 1, 1), (5, 3, 1, 1),
                                       (7, 5, 1, 1), (2, 1, 5, 1), (3, 1, 2, 1), (31, 1, 1, 1), (2, 3, 1, 5))]


def joined(s, names_of, dtypes=None, **domain):
    """Operands, and the result's axes: those of the first operand that has them all, else as they come."""
    size, every = LENGTHS[s.i], set("".join(names_of))
    want = list(next((n for n in names_of if set(n) == every), ""))
    for n in names_of:
        want += [a for a in n if a not in want]
    operands = [s.var([size[a] for a in n], n, dtype, **domain)
                for n, dtype in zip(names_of, dtypes or [None] * len(names_of))]
    return operands, want


def binary(f, out=None, first=None, second=None):
    def make(op, s):
        a, b = JOINS[s.i]
        (x, _), want = joined(s, (a, b))
        x, y = s.var(x.shape, a, **(first or {})), s.var([LENGTHS[s.i][n] for n in b], b, **(second or {}))
        return s.case(op, [x, y], {}, want, lambda u, v: f(by_name(u, list(a), want), by_name(v, list(b), want)), out)
    return make
