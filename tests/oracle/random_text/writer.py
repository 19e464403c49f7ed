"""A random model as text, and next to it the same in PyTorch: what the productions (values.py, layers.py, losses.py)
write into.

Each production knows both spellings of what it adds. PyTorch computes every line as soon as it is written, so that a
line of numbers that are no use (infinite, huge) is not kept. Nothing here asks our programs.
"""
import itertools
import random

import torch

from . import torch_words

COND, OR, AND, NOT, COMPARE, SUM, PRODUCT, UNARY, ATOM = range(9)  # how tightly an expression binds
PIPE = COND


class Refused(Exception):
    """A production that does not fit here."""


class Value:
    """An expression in both languages. axes: ((name, size), ...); kind: "f", "i" or "b"; high: whole numbers are below
    it; last: nothing may be differentiated twice through it; uses: names that it reads."""

    def __init__(self, dl, level, py, axes, kind="f", uses=(), high=None, last=False, named=False, data=None):
        self.dl, self.level, self.py, self.axes, self.kind = dl, level, py, tuple(axes), kind
        self.uses, self.high, self.last, self.named, self.data = set(uses), high, last, named, data

    def at(self, level):
        """Its text where an operand must bind as tightly as `level`."""
        return self.dl if self.level >= level else f"({self.dl})"

    @property
    def names(self):
        return " ".join(a for a, _ in self.axes)

    @property
    def shape(self):
        return tuple(n for _, n in self.axes)

    def has(self, axis):
        return any(a == axis for a, _ in self.axes)

    def size(self, axis):
        return dict(self.axes)[axis]

    def dim(self, axis):
        return [a for a, _ in self.axes].index(axis)


class Line:
    """A statement. params: names of variables that it declares, with their values."""

    def __init__(self, dl, py, makes, uses, value=None, params=None, states=None, module=None, leaf=False):
        self.dl, self.py, self.makes, self.uses, self.value = dl, py, makes, set(uses), value
        self.params, self.states, self.module, self.leaf = params or {}, states or {}, module, leaf


def axes_text(axes):
    return ", ".join(a if a == "N" else f"{a}={n}" for a, n in axes)


def over_text(names):
    return names[0] if len(names) == 1 else "[" + ", ".join(names) + "]"


def merged(*operands):
    """The order of the axes of operands, lists of names, of which none has all: of all orders of all axes, from the one
    of first appearance on, the first in which every pair of axes stands as in the first operand that has it, unless
    pairs of operands before it forbid that."""
    orders = list(itertools.permutations(dict.fromkeys(itertools.chain(*operands))))
    for operand in operands:
        for a, b in itertools.combinations(operand, 2):
            orders = [o for o in orders if o.index(a) < o.index(b)] or orders
    return list(orders[0])


class Scope:
    """Where lines are written: a model, or a module (`of` is the model's scope)."""

    def __init__(self, seed, real="f32", of=None):
        self.of, self.real = of, of.real if of else real
        self.r = of.r if of else random.Random(seed)
        self.draws = of.draws if of else torch.Generator().manual_seed(seed)
        self.sizes = of.sizes if of else {"N": self.r.choice([1, 2, 2, 3, 4])}
        self.counter = of.counter if of else itertools.count(1)
        self.numbers = {}  # names of whole numbers known here: arguments
        self.lines, self.pool, self.terms, self.finishing = [], [], [], False
        self.P, self.R = (of.P, of.R) if of else ({}, {})
        self.prefix = f"~{next(self.counter)}." if of else ""
        self.env = {**vars(torch_words), "torch": torch, "P": self.P, "R": self.R, "at": self.prefix}
        if of:
            self.env.update({k: v for k, v in of.env.items() if k.startswith("Mod")})
        self.params, self.states = {}, {}

    # ---- names and numbers ----

    def name(self, letter="h"):
        return f"{letter}{next(self.counter)}"

    def size(self, axis):
        if axis not in self.sizes:
            self.sizes[axis] = self.r.choice([2, 3, 4, 5, 6, 7] if axis not in "HWDTL" else [3, 4, 5, 6, 8])
        return self.sizes[axis]

    def number(self, n):
        """A whole number as it may be written here."""
        ways = [str(n)] * 3 + [k for k, v in self.numbers.items() if v == n]
        ways += [f"2*{k}" for k, v in self.numbers.items() if 2 * v == n]
        return self.r.choice(ways)

    def chance(self, p):
        return self.r.random() < p

    # ---- variables ----

    def random(self, shape, kind="f", high=2, scale=1.0, positive=False):
        if kind == "i":
            return torch.randint(0, high, shape, generator=self.draws)
        x = torch.randn(shape, generator=self.draws, dtype=torch.float64) * scale
        return x > 0 if kind == "b" else x.abs() + 0.5 if positive else x

    def variable(self, name, data):
        """A variable of that name below the scope's label."""
        if data.is_floating_point():
            data.requires_grad_()
        self.P[self.prefix + name] = data
        self.params[name] = data

    def state(self, name, data):
        self.R[self.prefix + name] = data
        self.states[name] = data

    def declare(self, axes, kind="f", high=2, data=None):
        """A line that declares an input or a parameter."""
        axes = tuple((a, n if n else self.size(a)) for a, n in axes)
        if len(dict(axes)) < len(axes):
            raise Refused
        batch = any(a == "N" for a, _ in axes)
        own = kind == "f" and not batch and (self.of is not None or self.chance(0.7))
        if self.of and not own:
            raise Refused
        if not own and not batch and self.chance(0.8):
            axes = (("N", self.size("N")),) + axes
        name = self.name("w" if own else "x" if kind == "f" else "k")
        dtype = {"f": self.real, "i": self.r.choice(["i32", "i64"]), "b": "bool"}[kind]
        data = self.random([n for _, n in axes], kind, high) if data is None else data
        if own:
            start = self.r.choice(["~ normal(0, 0.5)", "= 0", "~ uniform(-1, 1)", "~ constant(1)"])
            short = dtype == "f32" and self.chance(0.5)
            dl = f"param {name}: {'' if short else dtype}[{axes_text(axes)}] {start}"
        else:
            dl = f"{self.r.choice(['input', 'input', 'target'])} {name}: {dtype}[{axes_text(axes)}]"
        self.variable(name, data)
        py = f'{name} = P[at + "{name}"]'
        exec(py, self.env)
        v = Value(name, ATOM, name, axes, kind, {name}, high=high if kind == "i" else None, named=True, data=data)
        self.lines.append(Line([dl], [py], name, (), v, params={name: data}, leaf=True))
        self.pool.append(v)
        return v

    def pick(self, fits=lambda v: True, kind="f"):
        """A value that fits, the newest ones more often; None where there is none."""
        found = [v for v in self.pool if v.kind == kind and fits(v)]
        if not found:
            return None
        if self.finishing:  # nobody reads it yet
            read = set().union(*(line.uses for line in self.lines), *(t.uses for t in self.terms))
            read |= {line.makes for line in self.lines if line.leaf}
            found = [v for v in found if v.dl not in read] or found
        v = found[min(len(found) - 1, int(self.r.expovariate(1.2 / len(found)**0.5)))] if self.chance(0.3) else \
            found[-1 - min(len(found) - 1, int(self.r.expovariate(0.7)))]
        if not v.named:
            self.pool.remove(v)  # its text stands in one place
        return v

    def float(self, fits=lambda v: True, axes="N F"):
        """A value of numbers that fits, or a new variable."""
        if v := self.pick(fits):
            return v
        v = self.declare([(a, None) for a in axes.split()])
        if not fits(v):
            raise Refused
        return v

    def labelled(self):
        """A label for a layer: its text, the name below which its parameters are, and the name of its variable, if
        that is the label."""
        if self.chance(0.25):
            name = self.name()
            return "", name, name
        label = self.r.choice(["l{}", "net.{}", "block{}.0"]).format(next(self.counter))
        return f" @{label}", label, None

    # ---- values ----

    def compute(self, py, axes, kind):
        """The numbers of an expression, if they are of use."""
        data = eval(py, self.env)
        if tuple(data.shape) != tuple(n for _, n in axes):
            raise AssertionError(f"{py} is {tuple(data.shape)}, not {axes}")
        if data.numel() > 4000:
            raise Refused
        if kind == "f":
            data = data if data.dtype == torch.float64 else data.double()
            if data.numel() and not (torch.isfinite(data).all() and data.abs().max() < 60):
                raise Refused
        return data

    def add(self, dl, level, py, axes, uses, kind="f", high=None, last=None, name=None, own=(), force=False,
            module=None):
        """A value: as a line with a name, or, seldom, as text that the next line holds. uses: Values."""
        names = set().union(*(v.uses for v in uses)) if uses else set()
        last = any(v.last for v in uses) if last is None else last
        data = self.compute(py, axes, kind)
        v = Value(dl, level, py, axes, kind, names, high, last, data=data)
        if name is None and not force and not own and len(dl) < 60 and self.chance(0.35):
            self.pool.append(v)
            return v
        return self.assign(v, name, own, module)

    def assign(self, v, name=None, own=(), module=None):
        name = name or self.name()
        params = {p: self.params[p] for p in own if p in self.params}
        states = {p: self.states[p] for p in own if p in self.states}
        py = f"{name} = {v.py}"
        exec(py, self.env)
        made = Value(name, ATOM, name, v.axes, v.kind, {name}, v.high, v.last, named=True, data=v.data)
        self.lines.append(Line([f"{name} = {v.dl}"], [py], name, v.uses, made, params, states, module))
        self.pool.append(made)
        return made

    def named(self, v):
        """v with a name."""
        return v if v.named else self.assign(v)
