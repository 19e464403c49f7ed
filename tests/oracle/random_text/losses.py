"""Productions of losses: numbers, of values and of targets."""
from .values import aligned, reached
from .writer import ATOM, Line, Refused, Value, axes_text, over_text

losses = []


def loss(f):
    losses.append(f)
    return f


def term(s, dl, py, uses):
    """A number that becomes part of the loss."""
    names = set().union(*(v.uses for v in uses))
    s.terms.append(Value(dl, ATOM, py, (), uses=names, data=s.compute(py, (), "f")))


def goal(s, x, kind="f", high=2, positive=False, share=False):
    """A target with the axes of x in some order."""
    axes = list(x.axes)
    s.r.shuffle(axes)
    data = s.random([n for _, n in axes], kind, high, positive=positive)
    data = data.sigmoid() if share else data
    name, dtype = s.name("t"), {"f": s.real, "i": "i64", "b": "bool"}[kind]
    s.variable(name, data)
    py = f'{name} = P[at + "{name}"]'
    exec(py, s.env)
    v = Value(name, ATOM, name, axes, kind, {name}, high, named=True, data=data)
    s.lines.append(Line([f"target {name}: {dtype}[{axes_text(axes)}]"], [py], name, (), v, params={name: data},
                        leaf=True))
    return v


@loss
def weighted(s):
    x = s.named(s.float(lambda v: v.axes))
    t = goal(s, x)
    f, py = s.r.choice([("{}", "{}"), ("tanh({})", "torch.tanh({})"), ("{}", "{}")])
    how = s.r.choice(["mean", "sum"])
    scale = "" if how == "mean" else "0.25 * "
    term(s, f"{scale}{how}({f.format(x.dl)} * {t.dl})", f"{scale}({py.format(x.py)} * {aligned(t, x.axes)}).{how}()",
         [x, t])


@loss
def distance(s):
    x = s.named(s.float(lambda v: v.axes))
    t = goal(s, x)
    f, more, py = s.r.choice([("mse_loss", "", "F.mse_loss({}, {})"), ("l1_loss", "", "F.l1_loss({}, {})"),
                              ("smooth_l1_loss", ", beta=0.5", "F.smooth_l1_loss({}, {}, beta=0.5)"),
                              ("huber_loss", ", delta=0.75", "F.huber_loss({}, {}, delta=0.75)"),
                              ("mse_loss", ', reduction="sum"', "F.mse_loss({}, {}, reduction='sum')")])
    term(s, f"{f}({x.dl}, {t.dl}{more})", py.format(x.py, aligned(t, x.axes)), [x, t])


@loss
def relative(s):
    x = s.named(s.float(lambda v: len(v.axes) > 1))
    t = goal(s, x, positive=True)
    dims, y = tuple(range(1, len(x.axes))), aligned(t, x.axes)
    norm = f"torch.linalg.vector_norm({{}}, dim={dims})"
    term(s, f"relative_l2_loss({x.dl}, {t.dl})", f"({norm.format(f'{x.py} - {y}')} / {norm.format(y)}).mean()", [x, t])


@loss
def classes(s):
    x = s.named(s.float(lambda v: len(v.axes) > 1 and v.axes[1][1] > 1 and v.axes[1][0] != "N", "N C T"))
    (a, k), rest = x.axes[1], [c for c in x.axes if c != x.axes[1]]
    t = goal(s, type(x)("", 0, "", rest), "i", k)
    more, args = "", ""
    if s.chance(0.3):
        ws = [s.r.choice([0.5, 1, 2, 0.25]) for _ in range(k)]
        cast = " as f64" if s.real == "f64" else ""
        more += f", weight={ws} as [{a}]{cast}"
        args += f", weight=torch.tensor({ws}, dtype=torch.float64)"
    if s.chance(0.3):
        more, args = more + ", label_smoothing=0.25", args + ", label_smoothing=0.25"
    y = f"{aligned(t, rest)}"
    if s.chance(0.3) and (t.data != 0).any():
        more, args = more + ", ignore_index=0", args + ", ignore_index=0"
    term(s, f"cross_entropy({x.dl}, {t.dl}{more})", f"F.cross_entropy({x.py}, {y}{args})", [x, t])


@loss
def shares(s):
    x = s.named(s.float(lambda v: v.axes))
    t = goal(s, x, share=True)
    y, p = aligned(t, x.axes), f"torch.sigmoid({x.py})"
    over, dims = "", tuple(range(len(x.axes)))
    if len(x.axes) > 1 and s.chance(0.5):
        a = s.r.choice(x.axes)[0]
        over, dims = f", over={over_text([a])}", (x.dim(a),)
    dl, py = s.r.choice([
        (f"bce_with_logits({x.dl}, {t.dl})", f"F.binary_cross_entropy_with_logits({x.py}, {y})"),
        (f"bce_with_logits({x.dl}, {t.dl}, pos_weight=2)",
         f"F.binary_cross_entropy_with_logits({x.py}, {y}, pos_weight=torch.tensor(2.0).double())"),
        (f"focal_loss({x.dl}, {t.dl})", f"focal({x.py}, {y}, 0.25, 2.0).mean()"),
        (f"dice_loss(sigmoid({x.dl}), {t.dl}{over})", f"overlap({p}, {y}, {dims}, 0.5, 0.5, 5e-6)"),
        (f"tversky_loss(sigmoid({x.dl}), {t.dl}{over}, alpha=0.25, beta=0.75)",
         f"overlap({p}, {y}, {dims}, 0.25, 0.75, 1e-5)"),
        (f"kl_div({x.dl}, {t.dl})", f"F.kl_div({x.py}, {y}, reduction='mean')")])
    term(s, dl, py, [x, t])


@loss
def scored(s):
    x = s.named(s.float(lambda v: v.axes))
    t = goal(s, x)
    y, v = aligned(t, x.axes), f"(0.5 + torch.sigmoid({x.py}))"
    dl, py = s.r.choice([
        (f"gaussian_nll_loss({x.dl}, {t.dl}, 0.5 + sigmoid({x.dl}))",
         f"F.gaussian_nll_loss({x.py}, {y}, {v}, eps=1e-6)"),
        (f"crps_gaussian({x.dl}, {t.dl}, 0.5 + sigmoid({x.dl}))", f"crps({x.py}, {y}, {v}).mean()"),
        (f"reduced({x.dl} * {t.dl})", f"({x.py} * {y}).mean()"),
        (f"sum(({x.dl} * {t.dl})**2) / {x.data.numel()}", f"(({x.py} * {y})**2).mean()")])
    term(s, dl, py, [x, t])


@loss
def alike(s):
    x = s.named(s.float(lambda v: v.axes and v.axes[-1][1] > 1))
    t = goal(s, x)
    a = x.axes[-1][0]
    if (x.data.norm(dim=-1) < 1e-2).any():
        raise Refused
    term(s, f"mean(cosine_similarity({x.dl}, {t.dl}, over={a}))",
         f"F.cosine_similarity({x.py}, {aligned(t, x.axes)}, dim={len(x.axes) - 1}).mean()", [x, t])


@loss
def slope(s):
    """A penalty of a gradient."""
    y = s.float(lambda v: not v.last and v.uses and v.data.requires_grad)
    names = sorted(reached(s, y))
    if not names:
        raise Refused
    name = s.r.choice(names)
    x = next(line.value for line in s.lines if line.makes == name)
    term(s, f"mean(grad(sum(sin({y.dl})), {x.dl})**2)", f"(gradient(torch.sin({y.py}).sum(), {x.py})**2).mean()",
         [y, x])


@loss
def decay(s):
    x = s.named(s.float(lambda v: v.axes))
    term(s, f"0.01 * sum_squares({x.dl})", f"0.01 * ({x.py}**2).sum()", [x])

