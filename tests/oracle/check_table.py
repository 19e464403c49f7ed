#!/usr/bin/python3
"""check_table.py OP_RUN [OP...]: every op of ir/ops.def, for every element type that it takes, forward and backward,
next to PyTorch.

OP_RUN prints the table, so no list of ops stands here twice: an op without a row in table_rows.py fails, and so does an
element type that the shape rule takes and the row does not (a missing cell), or the other way round. Each cell has at
least 32 samples: 12 shapes (scalars, 0, 1, primes, broadcast axes) times 3 draws of values (ordinary; few and small, so
that ties and kinks are met; with NaN and infinities).

Each sample runs on the interpreter in double and compiled, with one thread and with three, for the targets that this
CPU has. Where DLC_TEST_SHARE asks for a part, a cell has a fourth of its shapes, DLC_TEST_DRAW says which, and each
target gets one of them at least. PyTorch computes in float64 from the same numbers. Gradients are held against central
differences of the interpreter's own results, too.

How far off a result may be: u is the type's unit roundoff (2^-24, 2^-53). A pointwise op rounds once and its functions
promise a few units in the last place (row.ulps; FLOAT_ULPS of them by default). What sums is off by at most u a term
relative to the sum of magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); of composites the same
is asked, in which the sum of magnitudes is what relative changes of the operands do to the result, d|y| = sum |dy/dx|
|x|, taken from PyTorch's own derivatives: no algorithm in that precision can promise more. These are one backward pass
for each element, so results have at most MOST_REACHED of them. What is linear in each operand (contractions) may have
more: n products and their sum are off by at most n u / (1 - n u) times the sum of magnitudes in whatever order, here in
u and in PyTorch in float64, and both n and that sum come of the op itself.

In 16 bits, table_halves.py judges next to what PyTorch makes in the same type; interpreted are the fused kernels then,
which round what they store.
"""
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as e:
    print("SKIP: %s (needs python3-torch)" % e)
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import table_rows  # fills rows
import table_samples
from checks import DRAW, ENV, SHARE
from table_halves import HalfExpectation
from table_samples import DRAWS, FLOATS, HALVES, MODULE_CASES, NUMBERS, TYPES, Sampler, rows

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
OP_RUN, ONLY = sys.argv[1], sys.argv[2:]
UNIT = {"f32": 2.0**-24, "f64": 2.0**-53}
LARGEST = {"f32": float(np.finfo("f4").max), "f64": float(np.finfo("f8").max)}
LEAST = {"f32": 2.0**-149, "f64": 2.0**-1074}  # below the normal range a rounding is half of this
MOST_REACHED = 700
STEP = 1e-4  # of central differences, of which two make one of fourth order (Richardson)
STEPS = {"plus": 1, "minus": -1, "plus2": 2, "minus2": -2}
results, printed = {"passed": 0, "failed": 0}, {}


def check(ok, text, *args):
    results["passed" if ok else "failed"] += 1
    if not ok:
        what = (text % args).split(" ")[0]
        printed[what] = printed.get(what, 0) + 1
        if printed[what] <= 8:
            print("FAILED " + text % args)
    return ok


def op_run(*args):
    done = subprocess.run([OP_RUN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
    return done.returncode, done.stdout, done.stderr.strip()


class Module:
    """Cases as one graph @train: an output each, and a loss over them by which their parameters have gradients."""

    def __init__(self, dtype):
        self.dtype, self.next = dtype, 0
        self.cases, self.variables, self.nodes, self.results, self.terms = [], [], [], [], []

    def id(self):
        self.next += 1
        return self.next - 1

    def type(self, dtype, axes, shape):
        return "%s[%s]" % (dtype, ", ".join("%s=%d" % a if a[0] else "%d" % a[1] for a in zip(axes, shape)))

    def put(self, operand):
        if operand.name is None:
            operand.name = "v%d" % len(self.variables)
            kind = "%s $%s = %%%d : %s%s" % (operand.role, operand.name, self.id(),
                                             self.type(operand.dtype, operand.axes, operand.shape),
                                             " init zero" if operand.role == "param" else "")
            self.variables.append((operand, kind))
        return "$" + operand.name

    def node(self, op, operands, attrs, dtype, axes, shape, layout=""):
        v = self.id()
        text = " {%s}" % ", ".join("%s=%s" % kv for kv in attrs.items()) if attrs else ""
        kind = self.type(dtype, axes, shape) + layout
        self.nodes.append("%%%d = %s%s%s%s : %s" % (v, op, " " * bool(operands), ", ".join(operands), text, kind))
        return v

    def add(self, case):
        self.cases.append(case)
        case.id = self.node(case.op, [self.put(o) for o in case.operands], case.attrs, case.out, case.axes, case.shape,
                            case.layout)
        self.results.append('output "y%d" = %%%d' % (case.id, case.id))
        if case.out == self.dtype and any(o.role == "param" for o in case.operands):
            case.weight = case.sampler.weights(case.shape, case.axes, case.out)
            y = self.node("mul", ["%%%d" % case.id, self.put(case.weight)], {}, case.out, case.axes, case.shape)
            named = [a for a in case.axes if a]
            self.terms.append(self.node("sum", ["%%%d" % y], {"over": "[%s]" % ", ".join(named)}, case.out, [], []))

    def text(self):
        total = self.terms[:1]
        for term in self.terms[1:]:
            total = [self.node("add", ["%%%d" % total[0], "%%%d" % term], {}, self.dtype, [], [])]
        loss = ['loss "loss" = %%%d' % total[0]] if total else []
        return "\n".join(["graph @train {"] + [kind for _, kind in self.variables] + self.nodes + loss + self.results +
                         ["}", ""])

    def write(self, folder):
        path = os.path.join(folder, "graph.dlir")
        with open(path, "w") as f:
            f.write(self.text())
        return path

    def numbers(self, folder, name, values):
        parts = [np.asarray(v.detach() if torch.is_tensor(v) else v, "f8").reshape(-1) for v in values]
        np.concatenate(parts or [np.zeros(0)]).tofile(os.path.join(folder, "in." + name))

    def split(self, folder, engine, name, listing):
        """Results by name: outputs y<id>, gradients of variables."""
        flat, at, found = np.fromfile(os.path.join(folder, "%s.%s" % (engine, name))), 0, {}
        shapes = {"y%d" % c.id: c.shape for c in self.cases}
        shapes.update({o.name: o.shape for o, _ in self.variables})
        for line in listing:
            key = line.split(" ", 1)[1]
            count = math.prod(shapes[key])
            found[key] = torch.from_numpy(flat[at:at + count].reshape(shapes[key]))
            at += count
        assert at == len(flat), "%s: %d numbers, %d expected" % (engine, len(flat), at)
        return found


def reach(case, inputs, dy):
    """What relative changes of the operands, each by itself, do to the result and to the gradients: sum |d / dx| |x|.
    With it, sum |dy| |dy/dx|."""
    leaves = [x.clone().requires_grad_(o.dtype in FLOATS) for x, o in zip(inputs, case.operands)]
    real = [x for x in leaves if x.requires_grad]
    y = case.f(*leaves)
    moved = torch.zeros(y.numel())
    spread = [torch.zeros_like(x) for x in real]
    gradients = []
    if not real or not y.requires_grad:
        return moved.reshape(y.shape), spread
    for i, one in enumerate(y.reshape(-1)):
        parts = torch.autograd.grad(one, real, retain_graph=True, create_graph=False, allow_unused=True)
        for k, p in enumerate(parts):
            if p is not None:
                moved[i] += (p * real[k]).abs().sum().detach()
                if dy is not None:
                    spread[k] += (p * dy.reshape(-1)[i]).abs()
    if dy is not None and case.row.bends:
        gradients = torch.autograd.grad(y, real, dy, create_graph=True, allow_unused=True)
        for k, g in enumerate(gradients):
            if g is None or not g.requires_grad:
                continue
            for j, one in enumerate(g.reshape(-1)):
                if one.requires_grad:
                    for m, p in enumerate(torch.autograd.grad(one, real, retain_graph=True, allow_unused=True)):
                        if p is not None:
                            spread[k].reshape(-1)[j] += (p * real[m]).abs().sum().detach()
    return moved.detach().reshape(y.shape), [s.detach() for s in spread]


def compare(what, got, want, slack, dtype):
    """Same NaN, same infinities, and the rest within the slack."""
    if got.shape != want.shape:
        return check(False, "%s: shape %s, not %s", what, tuple(got.shape), tuple(want.shape))
    if want.numel() == 0:
        return check(True, "")
    if dtype in UNIT:  # what the type cannot hold is infinite in it
        want = torch.where(want.abs() > LARGEST[dtype], want.sign() * math.inf, want)
    off = (got - want).abs()
    same = (got == want) | (got.isnan() & want.isnan()) | (off <= slack)
    if dtype in UNIT:
        same |= (got.abs() == math.inf) & (want.abs() + slack >= LARGEST[dtype]) & (got.sign() == want.sign())
    bad = (~same).nonzero()
    if len(bad) == 0:
        return check(True, "")
    at = tuple(bad[0].tolist())
    limit = slack[at].item() if torch.is_tensor(slack) and slack.dim() else float(slack)
    return check(False, "%s: %d of %d, at %s %.9g, not %.9g (off %.2g, at most %.2g)", what, len(bad), want.numel(),
                 list(at), got[at].item(),
                 want[at].item(), off[at].item(), limit)


def computed(case, inputs, dy):
    """PyTorch's result, and the gradients of parameters where there is a dy."""
    leaves = [x.clone().requires_grad_(o.role == "param") for x, o in zip(inputs, case.operands)]
    y, real = case.f(*leaves), [x for x in leaves if x.requires_grad]
    if dy is None:
        return y.detach().to(torch.float64), None
    got = torch.autograd.grad(y, real, dy, allow_unused=True) if y.requires_grad else [None] * len(real)
    return y.detach().to(torch.float64), [torch.zeros_like(x) if g is None else g.detach() for x, g in zip(real, got)]


class Expectation:
    """What PyTorch makes of a case with the values of one draw, and how large what is summed is."""

    def __init__(self, case, draw):
        inputs = [o.values[draw] for o in case.operands]
        self.dy = case.weight.values[draw] if case.weight is not None else None
        self.y, self.grads = computed(case, inputs, self.dy)
        self.counts = None
        tame = draw != "special"  # of what is not a number nothing can be said
        pointwise = case.row.pointwise
        self.moved = torch.zeros_like(self.y)
        self.spread = [g.abs() for g in self.grads or []]
        if tame and case.row.linear and case.out in FLOATS:
            changed = lambda change: [change(x) if o.dtype in FLOATS else x for x, o in zip(inputs, case.operands)]
            of = lambda change: computed(case, changed(change), None if self.dy is None else change(self.dy))
            (self.moved, self.spread), self.counts = of(torch.abs), of(torch.ones_like)
        elif tame and case.out in FLOATS and any(o.dtype in FLOATS for o in case.operands):
            check(self.y.numel() <= MOST_REACHED,
                  "%s %s: %d elements, of which nobody knows how large what they sum is", case.op, case.describe(),
                  self.y.numel())
            moved, spread = reach(case, inputs, self.dy)
            self.moved = torch.zeros_like(self.y) if pointwise else moved
            if self.dy is not None:
                spread = [s
                          for s, o in zip(spread, [o for o in case.operands if o.dtype in FLOATS]) if o.role == "param"]
                self.spread = [torch.maximum(s, g.abs()) for s, g in zip(spread, self.grads)]
                if case.row.cancels and self.dy.numel():
                    sizes = case.row.cancels(case.attrs, self.dy, *inputs)
                    sizes = sizes if isinstance(sizes, tuple) else [sizes] * len(inputs)
                    self.spread = [s + z
                                   for s, z in zip(self.spread,
                                            [z for z, o in zip(sizes, case.operands) if o.role == "param"])]
        elif not tame:
            finite = lambda v: v[v.isfinite()].double().abs().max().item() if v.isfinite().any() else 0.0
            size = max([1.0] + [finite(x) for x in inputs]) * max([1.0, finite(self.y)])
            if not pointwise:
                self.moved = torch.full_like(self.y, size)
            self.spread = [torch.full_like(g, size + finite(g)) for g in self.grads or []]
        self.terms = max([1] + [o.values[draw].numel() for o in case.operands])


def products_off(n, size, u):
    """How far off n products and their sum may be (Higham, 3.1), here and in PyTorch; each may lose what is below the
    normal range."""
    gamma = lambda u: n * u / (1 - n * u)
    return (gamma(u) + gamma(UNIT["f64"])) * size


def judge(case, draw, engine, found, dtype):
    e, u = case.expected[draw], UNIT.get(dtype, 0.0)
    what = "%s %s %s, %s, %s" % (case.op, case.describe(), dtype, engine, draw)
    ulps, least = case.row.ulps, LEAST.get(dtype, 0.0)
    slack = u * (ulps * e.y.abs() +
                 (e.terms + ulps) * e.moved) + ulps * least if case.out in FLOATS else torch.zeros_like(e.y)
    if e.counts:
        slack = products_off(e.counts[0], e.moved, u) + e.counts[0] * least
    if draw in case.row.skip:
        return
    compare(what, found["y%d" % case.id], e.y, slack, dtype)
    if e.grads is None or (case.row.tame and draw == "special"):
        return
    extra = case.row.extra * e.dy.abs().max().item() if case.row.extra and e.dy.numel() else 0.0
    for i, operand in enumerate(o for o in case.operands if o.role == "param"):
        want, spread = e.grads[i], e.spread[i]
        got = found.get(operand.name, torch.zeros_like(want))  # nothing flows: zero
        slack = u * ((ulps + e.terms) * spread + ulps * extra) + ulps * least
        if e.counts:
            slack = products_off(e.counts[1][i], spread, u) + e.counts[1][i] * least
        compare(what + ", gradient of operand %d" % case.operands.index(operand), got, want, slack, dtype)


def central(module, folder):
    """Along a direction of each case's parameters: the difference quotient of what its outputs weigh, and the
    gradients' share."""
    rng = np.random.default_rng(5)
    for name, step in STEPS.items():
        values = []
        for operand, _ in module.variables:
            if operand.direction is None:
                operand.direction = torch.from_numpy(rng.choice([-1.0, 1.0], tuple(operand.shape)))
            v = operand.values["plain"]
            values.append(v + step * STEP * operand.direction if operand.role == "param" else v)
        module.numbers(folder, name, values)


def judge_central(case, plain, found):
    key = "y%d" % case.id
    if case.weight is None or not case.row.smooth or not case.shape_count():
        return
    w = case.weight.values["plain"]
    there = plain[key].isfinite()  # what is infinite stays so: the padding of a maximum
    w, y = torch.where(there, w, torch.zeros_like(w)), torch.where(there, plain[key], torch.zeros_like(w))
    move = lambda a, b: (w * torch.where(there, found[a][key] - found[b][key], torch.zeros_like(w))).sum().item()
    quotient = (8 * move("plus", "minus") - move("plus2", "minus2")) / (12 * STEP)
    share = [(plain.get(o.name, torch.zeros(1)) * o.direction) for o in case.operands if o.role == "param"]
    total = sum(s.sum().item() for s in share)
    size = sum(s.abs().sum().item() for s in share) + (w * y).abs().sum().item()
    # the quotient is off by STEP^4 / 30 times a fifth derivative, and by the roundings of y over STEP: 1e-7 has room
    # for both
    check(abs(quotient - total) <= 1e-7 * (1 + size), "%s %s, central differences: %.9g, gradient %.9g", case.op,
          case.describe(), quotient, total)


def judge_half(case, draw, engine, found, dtype):
    if draw in case.row.skip:
        return
    for which, fault in case.expected[draw].faults(case, found, draw, engine):
        check(fault is None, "%s %s %s, %s, %s%s: %s", case.op, case.describe(), dtype, engine, draw, which, fault)


def run_module(module, engines):
    with tempfile.TemporaryDirectory() as folder:
        path = module.write(folder)
        for draw in DRAWS:
            module.numbers(folder, draw, [o.values[draw] for o, _ in module.variables])
        numeric, half = module.dtype in FLOATS and module.dtype not in HALVES, module.dtype in HALVES
        if numeric:
            central(module, folder)
        extra = list(STEPS) if numeric else []
        oracle = "rounded" if half else "interp"
        code, out, err = op_run("run", path, folder, oracle, *DRAWS, *extra)
        if not check(code == 0, "%s: %s: %s", sorted({c.op for c in module.cases}), oracle, err):
            return
        listing = out.split("\n")[:-1]
        if half:
            for draw in DRAWS:
                found = module.split(folder, oracle, draw, listing)
                for case in module.cases:
                    judge_half(case, draw, oracle, found, module.dtype)
        elif "interp" in engines:
            found = {name: module.split(folder, "interp", name, listing) for name in list(DRAWS) + extra}
            for case in module.cases:
                for draw in DRAWS:
                    if case.out in HALVES:  # a cast, in double: all digits stay
                        compare("cast %s, interp, %s" % (case.describe(), draw), found[draw]["y%d" % case.id],
                                case.expected[draw].y, 0.0, "f64")
                    else:
                        judge(case, draw, "interp", found[draw], "f64" if case.out in FLOATS else case.out)
                if numeric:
                    judge_central(case, found["plain"], found)
        for engine in engines:
            if engine == "interp":
                continue
            code, out, err = op_run("run", path, folder, engine, *DRAWS)
            if not check(code == 0, "%s: %s: %s", sorted({c.op for c in module.cases}), engine, err):
                continue
            for draw in DRAWS:
                found = module.split(folder, engine, draw, listing)
                for case in module.cases:
                    if half or case.out in HALVES:
                        judge_half(case, draw, engine, found, module.dtype)
                    else:
                        judge(case, draw, engine, found,
                              ("f32" if "f32" in (module.dtype, case.out) else "f64") if case.out in FLOATS
                              else case.out)


def engines_here():
    """The targets of this CPU, and where all is run those that multiply bf16, emulated if it is of another kind: the
    compiler takes three times as long, and tests of kernels run them always."""
    flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    of = [("cpu:amx_bf16", "amx_bf16"), ("cpu:avx512_bf16", "avx512_bf16"), ("cpu:avx512", "avx512f"),
          ("cpu:avx2", "avx2"), ("cpu:generic", "")]
    emulated = [e for e, flag in of if flag not in flags and "avx2" in flags and "bf16" in e] if SHARE == 1 else []
    return [e if flag in flags else e + ":emulated" for e, flag in of if flag in flags or e in emulated]


def multiplies(target, dtype):
    """Whether the target's kernels of that type are other ones than those of the next plainer target."""
    return "_bf16" not in target or dtype == "bf16"


def taken(row, cell, targets):
    """The numbers of the shapes that a run takes of a row: all, or a fourth, and no fewer than there are targets."""
    n = row.samples if SHARE == 1 else min(row.samples, max(-(-row.samples // 4), len(targets)))
    return sorted({(DRAW + cell + i * row.samples // n) % row.samples for i in range(n)})


def check_cells(table):
    """The types that the rules take are those of the rows."""
    module, asked = Module("f32"), []
    for op, row in rows.items():
        for dtype in TYPES if row.types else ():
            base = row.types[0]
            case = row.sample(op, Sampler(row, base, 9, ("cell", op)))
            for operand in case.operands:  # the same shapes and attributes, in another type
                operand.dtype = dtype if operand.dtype == base else operand.dtype
            case.out = dtype if case.out == base else case.out
            v = module.node(op, [module.put(o) for o in case.operands], case.attrs, case.out, case.axes, case.shape,
                            case.layout)
            asked.append((v, op, dtype))
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = op_run("types", module.write(folder))
    check(code == 0, "types: %s", err)
    faults = dict(line.split(" ", 1) for line in out.split("\n")[:-1])
    for v, op, dtype in asked:
        fault = faults.get("%%%d" % v)
        if dtype in rows[op].types:
            check(fault is None, "%s in %s: %s", op, dtype, fault)
        else:
            check(fault is not None and not fault.startswith("differs"),
                  "%s takes %s, which its row does not know: a missing cell", op, dtype)


def check_faults():
    """What the rules refuse, and sizes of 0 where there is nothing to choose from: a fault with words."""
    for op, row in rows.items():
        for operands, attrs, axes, shape, words in row.refused:
            module = Module("f32")
            sampler = Sampler(row, "f32", 0, ("refused", op))
            texts = [module.put(sampler.var(s, a, dtype=d)) for d, a, s in operands]
            module.node(op, texts, attrs, "f32", axes, shape)
            with tempfile.TemporaryDirectory() as folder:
                code, out, err = op_run("types", module.write(folder))
            check(words in out + err, "%s: wants '%s', but it says '%s'", op, words, out + err)


def main():
    code, out, err = op_run("table")
    table = [line.split(" ") for line in out.split("\n")[:-1]]
    names = [fields[0] for fields in table]
    for name, arity, kind, infer, _, _, *attrs in table:  # a function of PyTorch's name, of one operand, needs no row
        f = getattr(torch, name, None) or getattr(torch.nn.functional, name, None)
        if name not in rows and kind == "ELEM" and arity == "1" and infer in ("elem", "elem_float") and not attrs and f:
            table_samples.row(name, NUMBERS if infer == "elem" else FLOATS, table_samples.unary(f), bends=True)
    for fields in table:
        check(fields[0] in rows, "op %s has no row in table_rows.py: say what PyTorch calls it", fields[0])
    for op in rows:
        check(op in names, "table_rows.py has a row of %s, which is no op", op)
    for fields in table:
        if fields[0] in rows:
            rows[fields[0]].pointwise = fields[2] == "ELEM"
    check_cells(table)
    check_faults()
    targets = engines_here()
    print("targets: %s" % ", ".join(targets))
    cells = samples = 0
    modules = {}  # by type and targets, the last one not full
    for op, row in rows.items():
        if ONLY and op not in ONLY:
            continue
        for dtype in row.types:
            here = [t for t in targets if multiplies(t, dtype)]
            cases = [c for c in (row.sample(op, Sampler(row, dtype, i, (op, dtype))) for i in taken(row, cells, here))
                     if c]
            samples += len(cases) * len(DRAWS)
            check(len(cases) * len(DRAWS) >= (32 if SHARE == 1 else 9) or row.few, "%s in %s: %d samples", op, dtype,
                  len(cases) * len(DRAWS))
            for i, case in enumerate(cases):
                on = here if SHARE == 1 else here[(DRAW + i) % len(here):][:1]
                name = dtype if dtype in FLOATS else "whole"
                of = modules.setdefault((name, *on), [Module(name)])
                if len(of[-1].cases) >= MODULE_CASES:
                    of.append(Module(name))
                of[-1].add(case)
                half = dtype in HALVES or case.out in HALVES
                case.expected = {draw: HalfExpectation(case, draw, dtype) if half else Expectation(case, draw)
                                 for draw in DRAWS}
            cells += 1
    for (_, *on), of in modules.items():
        for module in of:
            run_module(module, ("interp", *on))
    print("%d ops, %d cells, %d samples each forward and backward" % (len(rows), cells, samples))
    print("%d passed, %d failed" % (results["passed"], results["failed"]))
    return results["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
