"""Productions of values: pointwise functions, reductions, order, derivatives. Each writes a line of both
languages into a scope (writer.py), or raises Refused."""
from .writer import ATOM, COMPARE, COND, OR, PIPE, PRODUCT, SUM, UNARY, Refused, Value, merged, over_text

parts = []  # (function, weight)


def part(weight=1.0):
    def keep(f):
        parts.append((f, weight))
        return f
    return keep


# name, its arguments in the language, PyTorch's text of x; the gradients of its own hardsigmoid and hardswish in f64
# are made with 1 / 6 in f32
pointwise = [
    ("relu", "", "F.relu({})"), ("leaky_relu", "0.2", "F.leaky_relu({}, 0.2)"), ("leaky_relu", "", "F.leaky_relu({})"),
    ("elu", "", "F.elu({})"), ("elu", "alpha=0.5", "F.elu({}, 0.5)"), ("gelu", "", "F.gelu({})"),
    ("gelu", 'approximate="tanh"', "F.gelu({}, approximate='tanh')"), ("silu", "", "F.silu({})"),
    ("softplus", "", "F.softplus({})"), ("softplus", "beta=2.0", "F.softplus({}, 2.0)"),
    ("clamp", "min=-0.75", "{}.clamp(min=-0.75)"), ("clamp", "min=-1, max=0.5", "{}.clamp(-1, 0.5)"),
    ("sigmoid", "", "torch.sigmoid({})"), ("tanh", "", "torch.tanh({})"), ("mish", "", "F.mish({})"),
    ("selu", "", "F.selu({})"), ("celu", "alpha=0.5", "F.celu({}, 0.5)"),
    ("hardsigmoid", "", "({} / 6 + 0.5).clamp(0, 1)"),
    ("hardswish", "", "{} * ({} / 6 + 0.5).clamp(0, 1)"), ("hardtanh", "", "F.hardtanh({})"),
    ("hardtanh", "min=-2, max=0.5", "F.hardtanh({}, -2, 0.5)"), ("relu6", "", "F.relu6({})"),
    ("softsign", "", "F.softsign({})"), ("tanhshrink", "", "F.tanhshrink({})"),
    ("softshrink", "bound=0.25", "F.softshrink({}, 0.25)"), ("hardshrink", "", "F.hardshrink({})"),
    ("logsigmoid", "", "F.logsigmoid({})"), ("exp", "", "torch.exp({})"), ("expm1", "", "torch.expm1({})"),
    ("abs", "", "torch.abs({})"), ("sin", "", "torch.sin({})"), ("cos", "", "torch.cos({})"),
    ("erf", "", "torch.erf({})"), ("floor", "", "torch.floor({})"), ("sign", "", "torch.sign({})"),
    ("atan", "", "torch.atan({})"), ("sinh", "", "torch.sinh({})"), ("cosh", "", "torch.cosh({})"),
    ("exp2", "", "torch.exp2({})"), ("ceil", "", "torch.ceil({})"), ("trunc", "", "torch.trunc({})"),
    ("frac", "", "torch.frac({})"), ("round", "", "torch.round({})"), ("sinc", "", "torch.sinc({})"),
    ("square", "", "torch.square({})"), ("nan_to_num", "", "torch.nan_to_num({})"),
    ("stop_gradient", "", "{}.detach()"), ("clamp", "max=0.5", "{}.clamp(max=0.5)")]
# of a value made fit for it
bounded = [
    ("log(1 + {}**2)", "torch.log(1 + {}**2)"), ("log(abs({}) + 0.5)", "torch.log(torch.abs({}) + 0.5)"),
    ("log1p(abs({}))", "torch.log1p(torch.abs({}))"), ("sqrt({}**2 + 0.25)", "torch.sqrt({}**2 + 0.25)"),
    ("rsqrt(1 + square({}))", "torch.rsqrt(1 + torch.square({}))"), ("reciprocal(2 + sin({}))",
                                                                    "torch.reciprocal(2 + torch.sin({}))"),
    ("asin(0.9 * tanh({}))", "torch.asin(0.9 * torch.tanh({}))"),
    ("acos(0.9 * sin({}))", "torch.acos(0.9 * torch.sin({}))"), ("tan(sin({}))", "torch.tan(torch.sin({}))"),
    ("atanh(0.9 * tanh({}))", "torch.atanh(0.9 * torch.tanh({}))"),
    ("log2(abs({}) + 1)", "torch.log2(torch.abs({}) + 1)"),
    ("log10(1.5 + cos({}))", "torch.log10(1.5 + torch.cos({}))"), ("(abs({}) + 0.25)**1.5",
                                                                  "(torch.abs({}) + 0.25)**1.5"),
    ("({}**2 + 1)**-0.5", "({}**2 + 1)**-0.5"), ("atan2({}, 1.5)", "torch.atan({} / 1.5)"),
    ("fmod({}, 0.75)", "torch.fmod({}, 0.75)"), ("max({}, 0.25)", "{}.clamp(min=0.25)"),
    ("min({}, 0.25)", "{}.clamp(max=0.25)"), ("lerp({}, 0.5, 0.25)", "({} + 0.25 * (0.5 - {}))"),
    ("2**{}", "2**{}"), ("-{}**2", "-{}**2"), ("{}**3", "{}**3")]


jumps = {"floor", "ceil", "trunc", "frac", "round", "sign", "hardshrink"}


def check_steady(s, x, py):
    """Where a function jumps, both sides are right within rounding: numbers next to a jump are not drawn. py: a text
    of {}."""
    low, high = (eval(py.replace("{}", f"({x.py} {move})"), s.env).double() for move in ("- 1e-6", "+ 1e-6"))
    if ((low - high).abs() > 1e-3).any():
        raise Refused


@part(6)
def one(s):
    name, more, py = s.r.choice(pointwise)
    x = s.float()
    if name in jumps:
        check_steady(s, x, py)
    py = py.replace("{}", f"({x.py})")
    if s.chance(0.5):
        dl, level = f"{x.at(OR)} |> {name}" + (f"({more})" if more else s.r.choice(["", "()"])), PIPE
    else:
        dl, level = f"{name}({x.dl}{', ' * bool(more)}{more})", ATOM
    s.add(dl, level, py, x.axes, [x])


@part(2)
def one_bounded(s):
    dl, py = s.r.choice(bounded)
    x = s.named(s.float())
    if dl.startswith("fmod"):
        check_steady(s, x, py)
    level = ATOM if dl[0].isalpha() else UNARY
    s.add(dl.replace("{}", x.dl), level, py.replace("{}", x.py), x.axes, [x])


@part(2)
def number(s):
    """Arithmetic with numbers, and what precedence makes of it."""
    x = s.named(s.float())
    k, m = s.r.choice([2, 3, 0.5, 0.25, -1]), s.r.choice([1, 2, 0.5])
    dl, level, py = s.r.choice([
        (f"{k} * {{}} + {m}", SUM, f"{k} * {{}} + {m}"), (f"{m} - {{}} / {abs(k)}", SUM, f"{m} - {{}} / {abs(k)}"),
        (f"-{{}} * {k}", PRODUCT, f"-{{}} * {k}"), (f"{{}} / 4 * {k}", PRODUCT, f"{{}} / 4 * {k}"),
        (f"{{}} - {m} - {{}}**2 / 3", SUM, f"{{}} - {m} - {{}}**2 / 3"),
        ("{} * 2**-2 + 7 % 4 // 2", SUM, "{} * 2**-2 + 1"), ("-{}**2 + {}", SUM, "-({}**2) + {}"),
        ("(1 if 3 > 2 and not false else 2) * {}", PRODUCT, "{} * 1"), (f"{{}} * (pi / {abs(k)})", PRODUCT,
                                                                       f"{{}} * (torch.pi / {abs(k)})")])
    s.add(dl.replace("{}", x.dl), level, py.replace("{}", x.py), x.axes, [x])


binary = [("{} + {}", SUM, "{} + {}"), ("{} - {}", SUM, "{} - {}"), ("{} * {}", PRODUCT, "{} * {}"),
          ("max({}, {})", ATOM, "torch.maximum({}, {})"), ("min({}, {})", ATOM, "torch.minimum({}, {})"),
          ("{} / (2 + abs({}))", PRODUCT, "{} / (2 + abs({}))"), ("atan2({}, 2 + {}**2)", ATOM,
                                                                 "torch.atan2({}, 2 + {}**2)"),
          ("(1 + abs({}))**{}", UNARY, "(1 + abs({}))**{}"), ("lerp({}, {}, 0.25)", ATOM, "torch.lerp({}, {}, 0.25)"),
          ("mean([{}, {}])", ATOM, "({} + {}) / 2"), ("sum([{}, {}])", ATOM, "{} + {}"),
          ("max([{}, {}])", ATOM, "torch.maximum({}, {})"), ("prod([{}, {}])", ATOM, "{} * {}"),
          ("fmod({}, 1 + abs({}))", ATOM, "torch.fmod({}, 1 + abs({}))")]


def fit(a, b):
    """May they meet? Axes of one name have one size; not both have an axis that the other lacks, or no common one."""
    sizes = dict(a.axes)
    if any(sizes.get(n, k) != k for n, k in b.axes):
        return False
    union = {**sizes, **dict(b.axes)}
    count = 1
    for k in union.values():
        count *= k
    return count <= 1500 and len(union) <= 5


def joined(*values):
    """The axes of what is made of several values: those of the first one that has all, or merged."""
    operands = [[a for a, _ in v.axes] for v in values]
    whole = [o for o in operands if set(o) == set().union(*operands)]
    names = whole[0] if whole else merged(*operands)
    sizes = {a: n for v in values for a, n in v.axes}
    return tuple((a, sizes[a]) for a in names)


def aligned(v, axes):
    """PyTorch's text of v with these axes."""
    want = " ".join(a for a, _ in axes)
    return f"({v.py})" if v.names == want else f'to({v.py}, "{v.names}", "{want}")'


def side(text):
    """How tightly the operands of a binary text must bind."""
    first = text.index("{}")
    inside = text.startswith(("max", "min", "atan2", "lerp", "mean", "sum", "prod", "fmod"))
    return [COND if inside and text[first - 1] in "([" else {"+": SUM, "-": SUM}.get(text[3:4], PRODUCT),
            ATOM if "**{}" in text or "{}**" in text else COND if text.endswith(("({}, {})", "[{}, {}])")) or
            "abs({})" in text[first + 2:] else PRODUCT if text[3:4] in "+-" else ATOM]


@part(7)
def two(s):
    a = s.float()
    b = s.pick(lambda v: fit(a, v)) or s.declare(s.r.sample(a.axes, s.r.randint(1, len(a.axes))) if a.axes
                                                 else [("F", 0)])
    if not fit(a, b):
        raise Refused
    dl, level, py = s.r.choice(binary)
    if s.chance(0.5):
        a, b = b, a
    turned = dl.startswith("lerp") and len(a.axes) < len({*a.axes, *b.axes})  # a + 0.25 * (b - a)
    axes = joined(b, a) if turned else joined(a, b)
    left, right = (ATOM, ATOM) if s.chance(0.3) else side(dl)
    x, y = aligned(a, axes), aligned(b, axes)
    if dl.startswith("fmod"):
        check_steady(s, Value("", 0, x, ()), f"torch.fmod({{}}, 1 + abs({y}))")
    s.add(dl.replace("{}", a.at(left), 1).replace("{}", b.at(right), 1), level, py.format(x, y), axes, [a, b])


comparisons = ["<", "<=", ">", ">=", "==", "!="]


@part(1.5)
def compared(s):
    a = s.float(lambda v: v.axes)
    op = s.r.choice(comparisons[:4])
    b = s.pick(lambda v: fit(a, v)) if s.chance(0.5) else None
    if b is None:
        k = s.r.choice(["0", "0.5", "-0.25"])
        check_steady(s, a, f"({{}}) {op} {k}")
        return s.add(f"{a.at(SUM)} {op} {k}", COMPARE, f"({a.py}) {op} {k}", a.axes, [a], kind="b")
    axes = joined(a, b)
    check_steady(s, Value("", 0, aligned(a, axes), ()), f"{{}} {op} {aligned(b, axes)}")
    s.add(f"{a.at(SUM)} {op} {b.at(SUM)}", COMPARE, f"{aligned(a, axes)} {op} {aligned(b, axes)}", axes, [a, b],
          kind="b")


@part(0.7)
def numbers_compared(s):
    k = s.pick(kind="i") or s.declare([("N", 0), ("T", 0)], "i", 4)
    op, m = s.r.choice(comparisons), s.r.randint(0, k.high - 1)
    s.add(f"{k.at(SUM)} {op} {m}", COMPARE, f"({k.py}) {op} {m}", k.axes, [k], kind="b")


@part(0.6)
def truth(s):
    a = s.pick(kind="b")
    if a is None:
        raise Refused
    if a.axes and s.chance(0.5):
        f, dims = s.r.choice(["any", "all"]), s.r.sample(a.axes, s.r.randint(1, len(a.axes)))
        axes = [x for x in a.axes if x not in dims]
        py = f"({a.py})"
        for d, _ in sorted(dims, key=lambda x: -a.dim(x[0])):
            py += f".{f}({a.dim(d)})"
        return s.add(f"{f}({a.dl}, over={over_text([d for d, _ in dims])})", ATOM, py, axes, [a], kind="b")
    x = s.float(lambda v: fit(a, v))
    axes = joined(a, x)
    if s.chance(0.5):
        return s.add(f"{a.at(UNARY)} * {x.at(UNARY)}", PRODUCT, f"{aligned(a, axes)} * {aligned(x, axes)}", axes,
                     [a, x])
    s.add(f"mean({a.dl})", ATOM, f"({a.py}).double().mean()", (), [a])


@part(2)
def chosen(s):
    c = s.pick(kind="b") or s.declare([("N", 0), (s.r.choice("FTC"), 0)], "b")
    a = s.float(lambda v: fit(c, v))
    b = s.pick(lambda v: fit(c, v) and fit(a, v)) if s.chance(0.6) else None
    if b is None:
        k = s.r.choice(["0.0", "1", "-0.5"])
        axes = joined(c, a)
        x, other = aligned(a, axes), f"torch.tensor({float(k)}, dtype=torch.float64)"
        if s.chance(0.5):
            return s.add(f"where({c.dl}, {a.dl}, {k})", ATOM, f"torch.where({aligned(c, axes)}, {x}, {other})", axes,
                         [c, a])
        return s.add(f"where({c.dl}, {k}, {a.dl})", ATOM, f"torch.where({aligned(c, axes)}, {other}, {x})", axes,
                     [c, a])
    axes = joined(c, a, b)
    count = 1
    for _, n in axes:
        count *= n
    if count > 1500 or len(axes) > 5:
        raise Refused
    s.add(f"where({c.dl}, {a.dl}, {b.dl})", ATOM,
          f"torch.where({aligned(c, axes)}, {aligned(a, axes)}, {aligned(b, axes)})", axes, [c, a, b])


reductions = {"sum": "{}.sum({})", "mean": "{}.mean({})", "max": "{}.amax({})", "min": "{}.amin({})",
              "var": "{}.var({}, unbiased=False)", "std": "{}.std({}, unbiased=False)",
              "norm": "torch.linalg.vector_norm({}, dim={})",
              "logsumexp": "torch.logsumexp({}, {})", "prod": None}


@part(4)
def reduced(s):
    x = s.float(lambda v: v.axes)
    f = s.r.choice(list(reductions))
    dims = s.r.sample(x.axes, min(len(x.axes), s.r.choice([1, 1, 2])))
    places = tuple(x.dim(d) for d, _ in dims)
    if f in ("std", "norm") and (x.data.std(places, unbiased=False) < 1e-3).any():
        raise Refused
    py = f"({x.py})"
    if f == "prod":
        for d in sorted(places, reverse=True):
            py += f".prod({d})"
    else:
        py = reductions[f].format(py, places)
    axes = [a for a in x.axes if a not in dims]
    over = over_text([d for d, _ in dims])
    dl, level = s.r.choice([(f"{f}({x.dl}, over={over})", ATOM), (f"{x.at(OR)} |> {f}(over={over})", PIPE)])
    s.add(dl, level, py, axes, [x])


def scan_of(s, d):
    product, reverse, exclusive = s.chance(0.4), s.chance(0.4), s.chance(0.3)
    said = f", reverse={str(reverse).lower()}, exclusive={str(exclusive).lower()}" if reverse or exclusive else ""
    return "cumprod" if product else "cumsum", said, f"cumulative({{}}, {d}, {product}, {reverse}, {exclusive})"


@part(2.5)
def along(s):
    """Functions along one axis, which stays."""
    x = s.float(lambda v: len(v.axes) > 1)
    a, n = s.r.choice(x.axes)
    d = x.dim(a)
    f, more, py = s.r.choice([
        ("softmax", "", f"{{}}.softmax({d})"), ("log_softmax", "", f"{{}}.log_softmax({d})"),
        ("softmin", "", f"F.softmin({{}}, {d})"), ("normalize", "", f"{{}} / lengths({{}}, {d}).clamp(min=1e-12)"),
        ("flip", "", f"{{}}.flip({d})"), ("sort", "", f"{{}}.sort({d}).values"),
        ("sort", ", descending=true", f"{{}}.sort({d}, descending=True).values"),
        scan_of(s, d), scan_of(s, d), scan_of(s, d)])
    if f == "normalize" and (torch_norm(x, d) < 1e-2).any():
        raise Refused
    s.add(f"{f}({x.dl}, over={a}{more})", ATOM, py.replace("{}", f"({x.py})"), x.axes, [x])


def torch_norm(x, d):
    return x.data.norm(dim=d)


@part(1)
def halves(s):
    x = s.float(lambda v: any(n % 2 == 0 and a != "N" for a, n in v.axes), "N E")
    a, n = s.r.choice([c for c in x.axes if c[1] % 2 == 0 and c[0] != "N"])
    f = s.r.choice(["glu", "geglu", "swiglu"])
    d, p = x.dim(a), f"({x.py})"
    first, second = (f"{p}.narrow({d}, {i}, {n // 2})" for i in (0, n // 2))
    py = {"glu": f"F.glu({p}, {d})", "geglu": f"{first} * F.gelu({second})", "swiglu": f"F.silu({first}) * {second}"}[f]
    s.add(f"{f}({x.dl}, over={a})", ATOM, py, [(c, n // 2 if c == a else k) for c, k in x.axes], [x])


@part(1)
def ordered(s):
    x = s.float(lambda v: len(v.axes) > 1)
    a, n = s.r.choice(x.axes)
    d, rest = x.dim(a), [c for c in x.axes if c[0] != a]
    q = s.r.choice([0, 0.25, 0.5, 0.9, 1])
    dl, py = s.r.choice([(f"median({x.dl}, over={a})", f"({x.py}).sort({d}).values.select({d}, {(n - 1) // 2})"),
                         (f"quantile({x.dl}, {q}, over={a})", f"quantile(({x.py}), {q}, {d})")])
    s.add(dl, ATOM, py, rest, [x])


@part(1)
def places(s):
    """Whole numbers from numbers: argmax, top_k, argsort, casts."""
    x = s.float(lambda v: len(v.axes) > 1)
    a, n = s.r.choice(x.axes)
    d = x.dim(a)
    way = s.r.randrange(4)
    if (x.data.sort(d).values.diff(dim=d).abs() < 1e-6).any():
        raise Refused  # ties within rounding
    if way == 0:
        return s.add(f"argmax({x.dl}, over={a})", ATOM, f"({x.py}).argmax({d})", [c for c in x.axes if c[0] != a],
                     [x], "i", n)
    if way == 1:
        k = n if a == "N" else s.r.randint(1, n)  # N without a size is that of the batch
        return s.add(f"top_k({x.dl}, {k}, over={a})", ATOM,
                     f"torch.sort(({x.py}), dim={d}, descending=True, stable=True).indices.narrow({d}, 0, {k})",
                     [(c, k if c == a else m) for c, m in x.axes], [x], "i", n)
    if way == 2:
        down = s.r.random() < 0.5
        return s.add(f"argsort({x.dl}, over={a}{', descending=true' if down else ''})", ATOM,
                     f"torch.sort(({x.py}), dim={d}, descending={down}, stable=True).indices", x.axes, [x], "i", n)
    check_steady(s, x, "(3 * torch.sigmoid({})).long()")
    s.add(f"(3 * sigmoid({x.dl})) as {s.r.choice(['i32', 'i64'])}", PIPE, f"(3 * torch.sigmoid({x.py})).long()",
          x.axes, [x], "i", 3)


@part(1)
def converted(s):
    """Numbers from whole numbers and truth values."""
    if s.chance(0.5):
        k = s.pick(kind="i") or s.declare([("N", 0), ("T", 0)], "i", 5)
        if s.chance(0.4) and not k.has("V") and len(k.axes) < 4:
            n = k.high + s.r.choice([0, 0, 1])
            py = f"F.one_hot({k.py}, {n}).double()"
            dl = f"one_hot({k.dl}, V={n})"
            if s.real == "f64":
                return s.add(dl + " as f64", PIPE, py, (*k.axes, ("V", n)), [k])
            return s.add(dl, ATOM, py, (*k.axes, ("V", n)), [k])
        return s.add(f"{k.at(OR)} as {s.real}", PIPE, f"({k.py}).double()", k.axes, [k])
    b = s.pick(kind="b")
    if b is None:
        raise Refused
    s.add(f"{b.at(OR)} as {s.real}", PIPE, f"({b.py}).double()", b.axes, [b])


@part(1)
def spread(s):
    """Numbers known when compiling, as tensors."""
    x = s.float(lambda v: v.axes)
    a, n = s.r.choice(x.axes)
    if a == "N":
        raise Refused
    d = "[" + ", ".join("None" if c != a else ":" for c, _ in x.axes) + "]"
    cast = " as f64" if s.real == "f64" else ""
    if s.chance(0.5):
        # halves are exact in f32, too
        dl = f"(linspace(0, {(n - 1) / 2}, {n}) as [{a}])" if n > 1 else "0.0"
        ks = [i / 2 for i in range(n)]
    else:
        ks = [s.r.choice([0.5, 1, 2, -1, 0.25, 3]) for _ in range(n)]
        dl = f"({ks} as [{a}])"
    dl = f"({dl}{cast})" if cast and dl != "0.0" else dl
    s.add(f"{x.at(PRODUCT)} * {dl}", PRODUCT, f"({x.py}) * torch.tensor({ks}, dtype=torch.float64){d}" if dl != "0.0"
          else f"({x.py}) * 0.0", x.axes, [x])


@part(1)
def listed(s):
    """A list over a range, or a loop that adds up."""
    x = s.named(s.float(lambda v: any(n > 1 and a != "N" for a, n in v.axes)))
    a, n = s.r.choice([c for c in x.axes if c[1] > 1 and c[0] != "N"])
    d = x.dim(a)
    rest = [c for c in x.axes if c[0] != a]
    k = s.r.randint(2, min(4, n))
    f = s.r.choice(["tanh", "sin", "sigmoid"])
    if s.chance(0.5):
        how, py = s.r.choice([("sum", "sum({})"), ("mean", f"sum({{}}) / {k}")])
        dl = f"{how}([{f}({x.dl}[{a}=i]) * (i + 1) for i in range({k})])"
        return s.add(dl, ATOM, py.format(f"[torch.{f}({x.py}.select({d}, i)) * (i + 1) for i in range({k})]"), rest,
                     [x])
    name = s.name()
    s.add(f"{x.dl}[{a}=0]", ATOM, f"{x.py}.select({d}, 0)", rest, [x], name=name)
    line = s.lines[-1]
    line.dl += [f"for i in range(1, {k}): {name} = {f}({name}) + 0.5 * {x.dl}[{a}=i]"]
    more = [f"for i in range(1, {k}): {name} = torch.{f}({name}) + 0.5 * {x.py}.select({d}, i)"]
    line.py += more
    exec("\n".join(more), s.env)


@part(0.6)
def local(s):
    """A local function, applied twice."""
    x = s.named(s.float())
    name = s.name("f")
    k = s.r.choice([0.5, 2, 0.25])
    s.add(f"{name}({name}({x.dl}, 1), 2)", ATOM, f"{name}({name}({x.py}, 1), 2)", x.axes, [x]) if False else None
    dl = f"{name}(u, k) = tanh({k} * u) + k * {x.dl}"
    py = f"{name} = lambda u, k: torch.tanh({k} * u) + k * {x.py}"
    exec(py, s.env)
    y = s.name()
    s.add(f"{name}({name}({x.dl}, 1), 0.5)", ATOM, f"{name}({name}({x.py}, 1), 0.5)", x.axes, [x], name=y)
    s.lines[-1].dl.insert(0, dl)
    s.lines[-1].py.insert(0, py)


@part(1.5)
def derivative(s):
    """grad(y, x) of a number by a tensor that it is computed from."""
    y = s.float(lambda v: not v.last and v.uses and v.data.requires_grad)
    names = sorted(reached(s, y))
    if not names:
        raise Refused
    x = s.r.choice(names)
    v = next(line.value for line in s.lines if line.makes == x)
    f = s.r.choice(["sum({})", "sum(sin({}))", "mean({}**2)"])
    py = {"sum({})": "({}).sum()", "sum(sin({}))": "torch.sin({}).sum()", "mean({}**2)": "(({})**2).mean()"}[f]
    s.add(f"grad({f.format(y.dl if '**' not in f else y.at(ATOM))}, {x})", ATOM, f"gradient({py.format(y.py)}, {x})",
          v.axes, [y, v])


def reached(s, y):
    """Names of float tensors from which y is computed, if all between can be differentiated twice."""
    found, todo = set(), set(y.uses)
    while todo:
        name = todo.pop()
        line = next((k for k in s.lines if k.makes == name), None)
        if line is None or name in found:
            continue
        found.add(name)
        todo |= line.uses
    ok = {line.makes for line in s.lines if line.value is not None and line.value.kind == "f" and line.value.axes}
    return found & ok
