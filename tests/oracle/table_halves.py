"""What check_table.py asks of results in 16 bits (f16, bf16): float64 on the same, already rounded operands is the
truth, and PyTorch in the same type says how near it one comes. Of a result and of each gradient, the root mean square
of what it is off by is at most 1.5 times PyTorch's and one unit in the last place (row.rereads: of what cancels); a
pointwise op's result is nowhere further off than one unit. What is no number, infinite or too large for the type is so
here where it is so in float64, rounded, or in PyTorch's own. Instructions that multiply bf16 take denormals for zeros,
in PyTorch (oneDNN, from 32 terms on) as here: an infinity times one is then no number.

What a kernel computes is f32 until it is stored: so it is compiled, and so the interpreter rounds it. Where an f32
number becomes an exponent (row.exponents: attention's scores), two of them that are large and near each other decide
the result by what either rounds to, in units of f32: then nothing is known of it.
"""
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from table_samples import HALVES, TORCH, representable

DIGITS = {"f16": (11, -14), "bf16": (8, -126)}  # binary digits of a number, exponent of the least normal one
LARGEST = {t: float(torch.finfo(TORCH[t]).max) for t in HALVES}
HALF_TYPES = tuple(TORCH[t] for t in HALVES)
lacking = set()  # what this PyTorch does not compute on a CPU in 16 bits


def ulp(v, dtype):
    digits, least = DIGITS[dtype]
    exponent = torch.frexp(v.abs().clamp(max=LARGEST[dtype]))[1] - 1
    exponent = torch.where(v == 0, torch.full_like(exponent, least), exponent.clamp(min=least))
    return torch.ldexp(torch.ones_like(v), exponent - digits + 1)


def flushed(v, dtype):
    return torch.where(v.abs() < 2.0 ** DIGITS[dtype][1], torch.zeros_like(v), v) if dtype in HALVES else v


def computed(case, draw, type_of, change=lambda v, dtype: v):
    """PyTorch's result and its gradients, as float64; each operand in its type, changed before."""
    leaves = [change(o.values[draw], o.dtype).to(type_of(o)).clone().requires_grad_(o.role == "param")
              for o in case.operands]
    y, real, grads = case.f(*leaves), [x for x in leaves if x.requires_grad], None
    if case.weight is not None:
        got, weight = [None] * len(real), change(case.weight.values[draw], case.out)
        if y.requires_grad:
            got = torch.autograd.grad(y, real, weight.to(y.dtype), allow_unused=True)
        grads = [torch.zeros_like(x, dtype=torch.float64) if g is None else g.detach().double()
                 for x, g in zip(real, got)]
    return y.detach().double(), grads


class Lacking(TorchDispatchMode):
    """Where PyTorch's CPU has no kernel of an op in 16 bits (1.13: most of f16's), its float32 result, rounded to the
    type, is taken for it: op by op of ATen, forward and backward, each op rounds once, as the kernels that it does
    have."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in lacking:
            try:
                return func(*args, **kwargs)
            except RuntimeError as e:
                if "not implemented for" not in str(e) and "not supported" not in str(e):
                    raise
                lacking.add(func)
        given = [v for v in tree_flatten((args, kwargs))[0] if torch.is_tensor(v) and v.dtype in HALF_TYPES]
        if not given:
            return func(*args, **kwargs)
        wide = lambda v: v.float() if torch.is_tensor(
            v) and v.dtype in HALF_TYPES else torch.float32 if v in HALF_TYPES else v
        narrow = lambda v: v.to(given[0].dtype) if torch.is_tensor(v) and v.dtype == torch.float32 else v
        return tree_map(narrow, func(*tree_map(wide, args), **tree_map(wide, kwargs)))


def kind(v):
    """0: finite, 1: NaN, 2 and 3: the infinities."""
    return v.isnan().int() + 2 * (v == math.inf).int() + 3 * (v == -math.inf).int()


def fault(got, want, own, dtype, pointwise, size=0.0, also=None, vague=None):
    """What is wrong with `got`, or nothing; units are those of numbers of `size` at least; it may be no number or
    infinite where `also` is, and anything where it is `vague`."""
    if got.shape != want.shape:
        return "shape %s, not %s" % (tuple(got.shape), tuple(want.shape))
    if dtype not in HALVES:
        off = ~((got == want) | (got.isnan() & want.isnan()))
        return "%d others" % off.sum() if off.any() else None
    rounded = representable(want, dtype)
    edge = (want.abs() >= LARGEST[dtype] - ulp(want, dtype)) & (want.abs() <= LARGEST[dtype] + 2 * ulp(want, dtype))
    edge &= (got.sign() == want.sign()) & (got.abs() >= LARGEST[dtype])
    other = (kind(got) != kind(rounded)) & (kind(got) != kind(own)) & ~edge
    vague = torch.zeros_like(other) if vague is None else vague
    other &= ~vague
    if also is not None:
        other &= kind(got) != kind(representable(also, dtype))
    if other.any():
        at = tuple(other.nonzero()[0].tolist())
        return "%d of %d: at %s %g, not %g (PyTorch: %g)" % (other.sum(), want.numel(), list(at), got[at], want[at],
                                                             own[at])
    there = got.isfinite() & rounded.isfinite() & ~vague
    off, unit = (got - want).abs(), torch.maximum(ulp(rounded, dtype),
                                                  torch.as_tensor(2.0 ** (1 - DIGITS[dtype][0]) * size))
    if pointwise and (there & (off > unit)).any():
        at = tuple((there & (off > unit)).nonzero()[0].tolist())
        return "at %s %.9g, not %.9g (PyTorch: %.9g): %.2g units" % (list(at), got[at], want[at], own[at],
                                                                     off[at] / unit[at])
    mean = lambda v, at: v[at].square().mean().sqrt().item() if at.any() else 0.0
    theirs = mean((own - want).abs(), there & own.isfinite())
    if mean(off, there) > 1.5 * theirs + mean(unit, there):
        return "off by %.3g (root mean square), PyTorch by %.3g, a unit is %.3g" % (mean(off, there), theirs,
                                                                                    mean(unit, there))
    return None


class HalfExpectation:
    """float64's results and PyTorch's own for a case with the values of one draw."""

    def __init__(self, case, draw, dtype):
        self.y, self.grads = computed(case, draw, lambda o: o.values[draw].dtype)
        with Lacking():
            self.own, self.own_grads = computed(case, draw, lambda o: TORCH[o.dtype])
        if case.out in HALVES:
            self.own = representable(self.own, case.out)
        self.flushed = None
        if case.row.multiplies and dtype == "bf16":
            y, grads = computed(case, draw, lambda o: o.values[draw].dtype, flushed)
            self.flushed = [y, *(grads or [])]
        self.sizes = [0.0] * len(case.operands)
        if case.row.rereads and self.grads is not None and case.shape_count():
            sizes = case.row.rereads(case.attrs, case.weight.values[draw], *[o.values[draw] for o in case.operands])
            self.sizes = [torch.as_tensor(s).nan_to_num(0.0, math.inf, math.inf) for s in sizes]
        self.vague = None
        if case.row.exponents:
            exponents = case.row.exponents(case.attrs, *[o.values[draw].double() for o in case.operands])
            self.vague = exponents * 2.0**-24 > 2.0 ** -DIGITS[dtype][0]
        # what the type cannot hold is infinite in the backward half, too: its gradient is another function's
        self.held = case.out not in HALVES or bool((self.y.isfinite() ==
                                                    representable(self.y, case.out).isfinite()).all())
        self.held &= self.vague is None or not bool(self.vague.any())

    def faults(self, case, found, draw, engine):
        """Of the result and of each gradient: its name and what is wrong, or nothing."""
        also = iter(self.flushed if self.flushed and engine.endswith("_bf16") else ())
        yield "", fault(found["y%d" % case.id], self.y, self.own, case.out, case.row.pointwise, also=next(also, None),
                        vague=self.vague)
        if self.grads is None or draw == "special" and (case.row.tame or not self.held):
            return
        for operand, want, theirs in zip([o for o in case.operands if o.role == "param"], self.grads, self.own_grads):
            got = found.get(operand.name, torch.zeros_like(want))  # nothing flows: zero
            k = case.operands.index(operand)
            yield ", gradient of operand %d" % k, fault(got, want, theirs, operand.dtype, False, self.sizes[k],
                                                        next(also, None))
