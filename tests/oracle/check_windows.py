#!/usr/bin/python3
"""check_windows.py INTERP_RUN: pooling, resizing and other affine views, and the norms over groups, against PyTorch in
float64.

One train graph holds every case with a parameter of its own; results and gradients are compared: awkward sizes (1,
primes, windows as long as the input, strides beyond the window), padding, dilation, ties, infinities and NaN.
"""
import itertools
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

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
rng = np.random.default_rng(11)
nan, inf = float("nan"), float("inf")
variables, nodes, names, data, want, leaves = [], [], [], {}, [], []
next_id = 0


def new_id():
    global next_id
    next_id += 1
    return next_id - 1


def text(axes, shape):
    return "f64[%s]" % ", ".join("%s=%d" % a for a in zip(axes, shape))


def put(x, axes, role):
    name = "v%d" % len(data)
    data[name] = x.detach()
    variables.append("  %s $%s = %%%d : %s%s" % (role, name, new_id(), text(axes, x.shape),
                                                 " init zero" if role == "param" else ""))
    return "$" + name


def ints(v):
    return "[%s]" % ", ".join(map(str, v))


def case(x, axes, op, attrs, f, more=(), out_axes=None):
    """op {attrs} of a parameter x (and of the parameters `more`, along C) must be f of them, its gradient that of sum(f
    r)."""
    leaf = [v.clone().requires_grad_() for v in (x, *more)]
    y = f(*leaf)
    r = torch.from_numpy(rng.uniform(-1, 1, tuple(y.shape)))
    grads = torch.autograd.grad(y, leaf, r)
    operands = [put(leaf[0], axes, "param")] + [put(v, "C", "param") for v in leaf[1:]]
    weight = put(r, out_axes or axes, "input")
    v, scaled, term = new_id(), new_id(), new_id()
    kind = text(out_axes or axes, y.shape)
    nodes.append("  %%%d = %s %s {%s} : %s" % (v, op, ", ".join(operands), ", ".join("%s=%s" % kv for kv in attrs),
                                               kind))
    nodes.append("  %%%d = mul %%%d, %s : %s" % (scaled, v, weight, kind))
    nodes.append("  %%%d = sum %%%d {over=[%s]} : f64[]" % (term, scaled, ", ".join(out_axes or axes)))
    names.append("%s of %s %s" % (op, text(axes, x.shape), dict(attrs)))
    want.append(y.detach())
    leaves.append((operands, grads))
    return v, term


def T(*shape):
    return torch.from_numpy(rng.uniform(-2, 2, shape))


def special(*shape):
    """Few different values, so that many tie, with infinities and NaN among them."""
    values = np.array([-inf, -1, 0, 0, 1, 1, inf, nan])
    return torch.from_numpy(values[rng.integers(0, 8, shape)])


def ties(*shape):
    return torch.from_numpy(rng.integers(0, 3, shape).astype("f8"))


def axes_of(x):
    return "NC" + "DHW"[5 - x.dim():]


outputs, terms = [], []


def add(*args, **kw):
    v, term = case(*args, **kw)
    outputs.append(v)
    terms.append(term)


MAX, AVG = (F.max_pool1d, F.max_pool2d, F.max_pool3d), (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
ADAPT = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
# spatial sizes, window, stride, padding, dilation
POOLS = [((7,), (3,), (2,), (1,), (1,)), ((1,), (1,), (1,), (0,), (1,)), ((5,), (5,), (1,), (2,), (1,)),
         ((11,), (2,), (3,), (0,), (1,)),
         ((13,), (4,), (2,), (2,), (3,)), ((2,), (2,), (5,), (1,), (1,)),
         ((6, 6), (2, 2), (2, 2), (0, 0), (1, 1)), ((7, 5), (3, 3), (2, 2), (1, 1), (1, 1)),
         ((4, 9), (3, 2), (1, 3), (0, 1), (1, 2)),
         ((1, 8), (1, 8), (1, 1), (0, 0), (1, 1)), ((5, 3), (4, 3), (3, 1), (2, 1), (1, 1)),
         ((11, 13), (2, 5), (3, 7), (1, 2), (2, 1)),
         ((3, 4, 5), (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 1, 1)),
         ((5, 3, 4), (3, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1)),
         ((2, 7, 3), (2, 1, 3), (2, 3, 1), (1, 0, 1), (1, 1, 1)),
         # a last window that would begin in the padding after; windows longer than what there is
         ((5,), (2,), (2,), (1,), (1,)), ((6,), (3,), (4,), (1,), (1,)), ((4, 3), (5, 3), (3, 2), (0, 1), (1, 1)),
         ((3, 8), (2, 3), (3, 2), (1, 0), (3, 2))]
# an only window, which reaches into the padding or not; long ones side by side, of a part of the axis
POOLS += [((70,), (70,), (70,), (0,), (1,)), ((9,), (9,), (4,), (2,), (1,)), ((9,), (10,), (9,), (3,), (1,)),
          ((130,), (65,), (65,), (0,), (1,)),
          ((140,), (66,), (66,), (0,), (1,)), ((140,), (66,), (66,), (0,), (2,)),
          ((6, 130), (3, 130), (2, 130), (1, 0), (1, 1)),
          ((130, 6), (64, 2), (64, 2), (0, 1), (1, 1)), ((5, 4), (3, 4), (1, 4), (1, 1), (1, 1)),
          ((3, 64, 5), (2, 64, 2), (1, 64, 2), (1, 0, 1), (1, 1, 1))]
for (size, k, s, p, d), ceil in itertools.product(POOLS, (False, True)):
    n = len(size) - 1
    window = [("stride", ints(s)), ("pad_lo", ints(p)), ("pad_hi", ints(p)), ("kernel", ints(k))]
    up = [("ceil", 1)] if ceil else []
    fits = [z + 2 * q + (ceil and t - 1) > e * (w - 1) for z, w, t, q, e in zip(size, k, s, p, d)]
    for x in (T(2, 3, *size), ties(2, 3, *size), special(2, 2, *size), torch.full((1, 2, *size), -inf)):
        if all(fits):
            add(x, axes_of(x), "max_pool", window + [("dilation", ints(d))] + up, lambda v: MAX[n](v, k, s, p, d, ceil))
    for counts in (0, 1):
        if all(z + 2 * q + (ceil and t - 1) >= w for z, w, t, q in zip(size, k, s, p)):
            x = T(2, 3, *size)
            add(x, axes_of(x), "avg_pool", window + [("counts_pad", counts)] + up,
                lambda v: AVG[n](v, k, s, p, ceil, bool(counts)))
for size, out in [((6,), (3,)), ((7,), (3,)), ((5,), (5,)), ((3,), (7,)), ((1,), (4,)), ((13,), (1,)), ((6, 7), (4, 2)),
                  ((5, 8), (8, 3)),
                  ((3, 4, 5), (2, 6, 1)), ((11, 2, 3), (7, 1, 3)), ((17,), (11,)), ((100,), (7,)),
                  ((300,), (3,)), ((301,), (3,)), ((130,), (1,)), ((200, 5), (2, 3)), ((129,), (2,)),
                  ((133, 128), (2, 2))]:
    x = T(2, 2, *size)
    add(x, axes_of(x), "adaptive_avg_pool", [("size", ints(out))], lambda v: ADAPT[len(size) - 1](v, out))
for size, out in [((4,), (8,)), ((5,), (7,)), ((7,), (3,)), ((1,), (6,)), ((6,), (1,)), ((3,), (3,)), ((3, 4), (6, 12)),
                  ((5, 2), (3, 9)),
                  ((13, 3), (26, 1)), ((2, 3, 2), (4, 6, 4)), ((3, 1, 5), (2, 4, 11))]:
    for mode in ("nearest", "linear"):
        for corners in (0, 1) if mode == "linear" else (0,):
            x = T(2, 2, *size)
            theirs = {"mode": ("linear", "bilinear", "trilinear")[len(size) - 1],
                      "align_corners": bool(corners)} if mode == "linear" else {"mode": mode}
            add(x, axes_of(x), "upsample", [("size", ints(out)), ("mode", mode), ("corners", corners)],
                lambda v: F.interpolate(v, out, **theirs))
for size, lo, hi in [(5, 2, 1), (3, 2, 2), (4, 0, 3), (7, 5, 0), (2, 1, 1), (11, 0, 0)]:
    for outside, mode in (("wrap", "circular"), ("reflect", "reflect"), ("edge", "replicate"), ("zero", "constant")):
        x = T(1, 2, size)
        add(x, "NCW", "affine", [("stride", "[1]"), ("start", -lo), ("along", "[W]"), ("div", 1), ("outside", outside)],
            lambda v: F.pad(v, (lo, hi), mode))
for shift in (0, 1, -3, 5):
    x = T(2, 5, 3)
    add(x, "NCW", "affine", [("stride", "[1]"), ("start", -shift), ("along", "[C]"), ("div", 1), ("outside", "wrap")],
        lambda v: v.roll(shift, 1))
x = T(2, 5, 3)
add(x, "NCW", "affine", [("stride", "[-1]"), ("start", 4), ("along", "[C]"), ("div", 1), ("outside", "zero")],
    lambda v: v.flip(1))
add(x, "NCW", "affine", [("stride", "[2]"), ("start", 1), ("along", "[C]"), ("div", 1), ("outside", "zero")],
    lambda v: v[:, 1::2])
add(x, "NCW", "affine", [("stride", "[2, 1]"), ("start", 0), ("along", "[C, k]"), ("div", 1), ("outside", "zero")],
    lambda v: v.unfold(1, 3, 2), out_axes=["N", "C", "W", "k"])
for x in (ties(3, 4, 5), T(3, 4, 5)):  # max(dim) gives NaNs to the first, max_pool to the last: so does first_max
    add(x, "NCW", "first_max", [("over", "[W]")], lambda v: v.max(2).values, out_axes="NC")
for size, groups in [((2, 6, 5), 3), ((3, 4), 2), ((1, 6, 3, 4), 1), ((2, 5, 2, 3), 5), ((2, 4, 3, 2, 3), 4)]:
    x = T(*size)
    axes = "NCDHW"[:len(size)]
    add(x, axes, "group_norm", [("eps", 1e-5), ("groups", groups)], lambda v, w, b: F.group_norm(v, groups, w, b, 1e-5),
        more=(T(size[1]), T(size[1])))

total = terms[0]
for t in terms[1:]:
    v = new_id()
    nodes.append("  %%%d = add %%%d, %%%d : f64[]" % (v, total, t))
    total = v
results = ['  output "y%d" = %%%d' % (i, v) for i, v in enumerate(outputs)] + ['  loss "loss" = %%%d' % total]
failed, passed = [], 0
with tempfile.TemporaryDirectory() as d:
    with open(d + "/windows.dlir", "w") as f:
        f.write("\n".join(["graph @train {"] + variables + nodes + results + ["}", ""]))
    for name, x in data.items():
        x.contiguous().numpy().astype("<f8").tofile("%s/%s.f64" % (d, name))
    for passes in ("lower,autodiff", "lower,simplify,autodiff,simplify,layout,fuse"):
        done = subprocess.run([sys.argv[1], d + "/windows.dlir", d, passes], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit("interp_run failed: %s" % done.stderr.strip()[-800:])
        get = lambda i, like: torch.from_numpy(np.fromfile("%s/out.%d.f64" % (d, i), "<f8")).reshape(like.shape)
        at = len(want) + 1  # gradients stand after the loss, a parameter each
        for i, expect in enumerate(want):
            pairs = [("result", get(i, expect), expect)]
            for k, grad in enumerate(leaves[i][1]):
                pairs.append(("gradient %d" % k, get(at, grad), grad))
                at += 1
            for what, got, right in pairs:
                good = torch.allclose(got, right, rtol=1e-9, atol=1e-11, equal_nan=True)
                passed += good
                if not good:
                    failed.append("%s, %s, %s: got %s, want %s" % (passes, names[i], what, got.flatten()[:12],
                                                                   right.flatten()[:12]))
for f in failed:
    print("failed:", f)
print("%d passed, %d failed" % (passed, len(failed)))
sys.exit(bool(failed))
