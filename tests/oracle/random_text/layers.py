"""Productions of layers: windows, products, norms, attention, recurrence, scans, transforms."""
from .values import fit, joined, part
from .writer import ATOM, OR, PIPE, PRODUCT, Refused, over_text


def layer(s, x, call, py, axes, shapes, last=None, states=(), more=()):
    """A layer with parameters: `call` is its text after the pipe, `py` PyTorch's with {name} for its label. shapes:
    {role: shape}."""
    label, name, variable = s.labelled()
    own = []
    for role, shape in shapes.items():
        fan = 1
        for k in shape[1:]:
            fan *= k
        data = s.random(shape, scale=0.8 / fan**0.5 if len(shape) > 1 else 0.5)
        s.variable(f"{name}.{role}", data + 1 if role == "weight" and len(shape) == 1 else data)
        if role == "weight" and len(shape) == 1:
            s.variable(f"{name}.{role}", (data + 1).detach())
        own.append(f"{name}.{role}")
    for role, data in states:
        s.state(f"{name}.{role}", data)
        own.append(f"{name}.{role}")
    key = 'at + "' + name
    py = py.replace("W(", "P[" + key + ".").replace(")W", '"]').replace("{name}", key + '"')
    dl = f"{x.at(OR)} |> {call}{label}"
    return s.add(dl, PIPE, py, axes, [x, *more], name=variable, own=own, last=last)


def grid(s, spatial, size=None):
    """An image's axes: N, C and so many more."""
    letters = {1: ["T", "W", "L"], 2: ["H W"], 3: ["D H W"]}[spatial]
    return "N C " + s.r.choice(letters)


def image(s, fits=lambda v: True, most=2):
    k = s.r.choice([1, 2, 2, 3][:2 + most])
    k = min(k, most)
    return s.float(lambda v: 3 <= len(v.axes) <= 2 + most and v.axes[0][0] == "N" and v.axes[1][0] == "C" and fits(v),
                   grid(s, k))


def window(s, n):
    """A window along an axis of n: kernel, stride, pad, dilation."""
    k = s.r.choice([1, 2, 3, 3])
    dilation = s.r.choice([1, 1, 1, 2])
    pad = s.r.choice([0, 1]) if k > 1 else 0
    if (k - 1) * dilation + 1 > n + 2 * pad:
        raise Refused
    return k, s.r.choice([1, 1, 2]), pad, dilation


def text_of(values):
    return str(values[0]) if len(set(values)) == 1 else "[" + ", ".join(map(str, values)) + "]"


def options(k, stride, pad, dilation):
    out = ""
    for name, values, base in (("stride", stride, 1), ("pad", pad, 0), ("dilation", dilation, 1)):
        if any(v != base for v in values):
            out += f", {name}={text_of(values)}"
    return out


@part(4)
def convolution(s):
    x = image(s, most=3)
    spatial = x.axes[2:]
    each = [window(s, n) for _, n in spatial]
    if s.chance(0.5):
        each = [each[0]] * len(spatial)
        if any((each[0][0] - 1) * each[0][3] + 1 > n + 2 * each[0][2] for _, n in spatial):
            raise Refused
    k, stride, pad, dilation = zip(*each)
    c = x.axes[1][1]
    groups = s.r.choice([g for g in (1, 1, 1, 2, c) if c % g == 0])
    o = groups * s.r.randint(1, 4) if groups > 1 else s.r.randint(1, 7)
    sizes = [(n + 2 * p - (kk - 1) * dd - 1) // ss + 1 for (_, n), kk, ss, p,
             dd in zip(spatial, k, stride, pad, dilation)]
    bias = s.chance(0.7)
    axes = [x.axes[0], ("C", o), *((a, n) for (a, _), n in zip(spatial, sizes))]
    more = options(k, stride, pad, dilation) + (f", groups={s.number(groups)}" if groups > 1 else "") + ("" if bias
        else ", bias=false")
    shapes = {"weight": (o, c // groups, *k), **({"bias": (o,)} if bias else {})}
    py = f"F.conv{len(k)}d(({x.py}), W(weight)W, {'W(bias)W' if bias else None}, {stride}, {pad}, {dilation}, {groups})"
    layer(s, x, f"conv({s.number(o)}, {text_of(k)}{more})", py, axes, shapes)


@part(1)
def computed_kernel(s):
    x = image(s)
    spatial = x.axes[2:]
    k = [s.r.randint(1, min(3, n)) for _, n in spatial]
    o = s.r.randint(1, 4)
    w = s.named(s.declare([("O", o), ("C", x.axes[1][1]), *(("k" + a, n) for (a, _), n in zip(spatial, k))])) if \
        s.sizes.get("O", o) == o else None
    if w is None or len(w.axes) != len(x.axes) or w.axes[0][0] == "N":
        raise Refused
    wd, wp = s.r.choice([(w.dl, w.py), (f"tanh({w.dl})", f"torch.tanh({w.py})"),
                         (f"{w.dl} - mean({w.dl}, over=C)", f"({w.py} - {w.py}.mean(1, keepdim=True))")])
    sizes = [n + 2 - kk + 1 for (_, n), kk in zip(spatial, k)]
    s.add(f"conv({x.dl}, kernel={wd}, pad=1)", ATOM, f"F.conv{len(k)}d(({x.py}), {wp}, padding=1)",
          [x.axes[0], ("C", o), *((a, n) for (a, _), n in zip(spatial, sizes))], [x, w])


@part(1.2)
def transposed(s):
    x = image(s, lambda v: v.data.numel() < 500)
    spatial = x.axes[2:]
    c = x.axes[1][1]
    k, stride, pad = s.r.choice([2, 3, 4]), s.r.choice([1, 2]), s.r.choice([0, 1])
    out_pad = s.r.choice([0, 1]) if stride == 2 else 0
    groups = s.r.choice([g for g in (1, 1, 2) if c % g == 0])
    o = groups * s.r.randint(1, 3)
    sizes = [(n - 1) * stride - 2 * pad + k + out_pad for _, n in spatial]
    if min(sizes) < 1:
        raise Refused
    more = (f", stride={stride}" if stride > 1 else "") + (f", pad={pad}" if pad else "") + (f", out_pad={out_pad}"
        if out_pad else "") + \
        (f", groups={groups}" if groups > 1 else "")
    axes = [x.axes[0], ("C", o), *((a, n) for (a, _), n in zip(spatial, sizes))]
    py = f"F.conv_transpose{len(spatial)}d(({x.py}), W(weight)W, W(bias)W, {stride}, {pad}, {out_pad}, {groups})"
    layer(s, x, f"conv_transpose({s.number(o)}, {k}{more})", py, axes,
          {"weight": (c, o // groups, *[k] * len(spatial)), "bias": (o,)})


@part(2)
def pooled(s):
    x = image(s)
    spatial = x.axes[2:]
    k = s.r.choice([2, 3])
    stride = s.r.choice([None, 1, 2])
    pad = s.r.choice([0, 0, 1])
    ceil = s.chance(0.3)
    if any(k > n + 2 * pad for _, n in spatial):
        raise Refused
    kind = s.r.choice(["max_pool", "avg_pool"])
    count = kind == "avg_pool" and s.chance(0.4)
    more = "".join([f", stride={stride}" * bool(stride), f", pad={pad}" * bool(pad), ", ceil_mode=true" * ceil,
                    ", count_include_pad=false" * count])
    args = f"{k}, {stride or k}, {pad}, ceil_mode={ceil}" + (", count_include_pad=False" if count else "")
    py = f"F.{kind}{len(spatial)}d(({x.py}), {args})"
    shape = eval(py, s.env).shape
    s.add(f"{x.at(OR)} |> {kind}({k}{more})", PIPE, py,
          [*x.axes[:2], *((a, n) for (a, _), n in zip(spatial, shape[2:]))], [x])


@part(1.2)
def resized(s):
    x = image(s, lambda v: v.data.numel() < 900)
    spatial = x.axes[2:]
    n = len(spatial)
    way = s.r.randrange(4)
    p = f"({x.py})"
    if way == 0:
        k = [s.r.randint(1, m) for _, m in spatial]
        kind = s.r.choice(["adaptive_avg_pool", "adaptive_max_pool"])
        return s.add(f"{kind}({x.dl}, {text_of(k)})", ATOM, f"F.{kind}{n}d({p}, {k})",
                     [*x.axes[:2], *((a, m) for (a, _), m in zip(spatial, k))],
                     [x], last=x.last or kind.endswith("max_pool"))
    if way == 1 and n == 2:
        k = [s.r.randint(2, 8) for _ in spatial]
        align = s.chance(0.3)
        mode = s.r.choice(["bicubic", "bilinear"])
        anti = not align and s.chance(0.4)
        more = ", align_corners=true" * align + ", antialias=true" * anti
        py = f"F.interpolate({p}, size={k}, mode='{mode}', align_corners={align}, antialias={anti})"
        return s.add(f'upsample({x.dl}, size={k}, mode="{mode}"{more})', ATOM, py,
                     [*x.axes[:2], *((a, m) for (a, _), m in zip(spatial, k))],
                     [x], last=x.last or anti)
    mode = s.r.choice(["nearest", {1: "linear", 2: "bilinear", 3: "trilinear"}[n]])
    k = s.r.choice([2, 3]) if n == 1 else 2
    said = f', mode="{mode}"' if mode != "nearest" or s.chance(0.5) else ""
    dl = f"upsample(scale_factor={k}{said})"
    s.add(f"{x.at(OR)} |> {dl}", PIPE, f"F.interpolate({p}, scale_factor={k}, mode='{mode}')",
          [*x.axes[:2], *((a, m * k) for a, m in spatial)], [x])


@part(0.8)
def shuffled(s):
    x = s.float(lambda v: len(v.axes) == 4 and v.axes[0][0] == "N" and v.axes[1][0] == "C", "N C H W")
    (_, c, h, w), p = x.shape, f"({x.py})"
    if c % 4 == 0 and s.chance(0.5):
        return s.add(f"pixel_shuffle({x.dl}, 2)", ATOM, f"F.pixel_shuffle({p}, 2)",
                     [x.axes[0], ("C", c // 4), *((a, m * 2) for a, m in x.axes[2:])], [x])
    if h % 2 == w % 2 == 0 and s.chance(0.5):
        return s.add(f"pixel_unshuffle({x.dl}, 2)", ATOM, f"F.pixel_unshuffle({p}, 2)",
                     [x.axes[0], ("C", c * 4), *((a, m // 2) for a, m in x.axes[2:])], [x])
    k = min(2, h, w)
    u = f"unfold({x.dl}, {k}, pad=1)"
    py = f"F.unfold({p}, {k}, padding=1)"
    columns = (h + 3 - k) * (w + 3 - k)
    if s.chance(0.5):
        return s.add(u, ATOM, py, [x.axes[0], ("C", c * k * k), ("L", columns)], [x])
    s.add(f"fold({u}**2, [{h}, {w}], {k}, pad=1)", ATOM, f"F.fold({py}**2, ({h}, {w}), {k}, padding=1)",
          [*x.axes[:2], ("H", h), ("W", w)], [x])


@part(0.8)
def sampled(s):
    x = s.float(lambda v: len(v.axes) == 4 and v.axes[0][0] == "N" and v.axes[1][0] == "C", "N C H W")
    a, b = s.r.randint(1, 4), s.r.randint(1, 4)
    new = [("U", a), ("V", b)]
    if any(s.sizes.get(c, m) != m for c, m in new):
        raise Refused
    g = s.declare([("N", 0), *new, ("Z", 2)])
    mode, padding, align = s.r.choice(["bilinear", "nearest"]), s.r.choice(["zeros", "border",
        "reflection"]), s.chance(0.5)
    py = f"F.grid_sample(({x.py}), 0.8 * {g.py}, mode='{mode}', padding_mode='{padding}', align_corners={align})"
    more = f'mode="{mode}", padding="{padding}", align_corners={str(align).lower()}'
    s.add(f"grid_sample({x.dl}, 0.8 * {g.dl}, {more})", ATOM, py,
          [*x.axes[:2], *new], [x, g], last=True)


# ---- products ----

@part(3)
def linear(s):
    x = s.float(lambda v: v.axes and v.axes[-1][0] != "N", "N E")
    o, bias = s.r.randint(1, 8), s.chance(0.7)
    py = f"F.linear(({x.py}), W(weight)W, {'W(bias)W' if bias else None})"
    shapes = {"weight": (o, x.axes[-1][1]), **({"bias": (o,)} if bias else {})}
    layer(s, x, f"linear({s.number(o)}{'' if bias else ', bias=false'})", py, [*x.axes[:-1], (x.axes[-1][0], o)],
          shapes)


@part(3)
def product(s):
    """A contraction: a sum of products, or einsum."""
    x = s.float(lambda v: v.axes)
    w = s.pick(lambda v: fit(x, v) and any(x.has(a) for a, _ in v.axes)) if s.chance(0.5) else None
    if w is None:
        a = s.r.choice(x.axes)
        new = next(c for c in "VOKMQ" if not x.has(c))
        w = s.declare([a, (new, 0)] if s.chance(0.5) else [(new, 0), a])
    if not fit(x, w):
        raise Refused
    shared = [a for a, _ in x.axes if w.has(a)]
    over = s.r.sample(shared, s.r.randint(1, len(shared)))
    if s.chance(0.5):
        x, w = w, x
    axes = [c for c in joined(x, w) if c[0] not in over]
    letters = {c: chr(97 + i) for i, (c, _) in enumerate(joined(x, w))}
    text = lambda v: "".join(letters[c] for c, _ in v)
    if s.chance(0.5):
        f = s.r.choice(["sum", "sum", "mean"])
        count = 1
        for a in over:
            count *= x.size(a)
        py = f"torch.einsum('{text(x.axes)},{text(w.axes)}->{text(axes)}', ({x.py}), ({w.py}))" + (f" / {count}"
            if f == "mean" else "")
        return s.add(f"{f}({x.at(PRODUCT)} * {w.at(PRODUCT + 1)}, over={over_text(over)})", ATOM, py, axes, [x, w])
    s.r.shuffle(axes)
    pattern = f"{text(x.axes)},{text(w.axes)}->{text(axes)}"
    s.add(f'einsum("{pattern}", {x.dl}, {w.dl})', ATOM, f"torch.einsum('{pattern}', ({x.py}), ({w.py}))", axes, [x, w])


@part(1.5)
def product_of_three(s):
    """A sum of products, or einsum, of three: letters end at the first, the second or the last operand, and axes that
    are summed, or are not, stand in one, two or all."""
    x = s.named(s.float(lambda v: 1 < len(v.axes) < 4 and v.data.numel() < 200))
    a = s.r.choice(x.axes)
    new = next(c for c in "VOKMQ" if not x.has(c))
    w = s.declare([a, (new, 0)])
    k = s.declare(s.r.sample(list(dict.fromkeys([*x.axes, *w.axes])), s.r.randint(1, 2)))
    values = [x, w, k]
    s.r.shuffle(values)
    sizes = [dict(v.axes) for v in values]
    if any(m.get(c, n) != n for m in sizes for o in sizes for c, n in o.items()):
        raise Refused
    first = joined(values[0], values[1])
    axes = joined(type(x)("", 0, "", first), values[2])  # products are made from left to right
    over = s.r.sample([c for c, _ in axes], s.r.randint(1, 2))
    letters = {c: chr(97 + i) for i, (c, _) in enumerate(axes)}
    text = lambda v: "".join(letters[c] for c, _ in v)
    rest = [c for c in axes if c[0] not in over]
    given, py = ", ".join(v.dl for v in values), ", ".join(f"({v.py})" for v in values)
    pattern = ",".join(text(v.axes) for v in values)
    if s.chance(0.5):
        s.r.shuffle(rest)
        return s.add(f'einsum("{pattern}->{text(rest)}", {given})', ATOM,
                     f"torch.einsum('{pattern}->{text(rest)}', {py})", rest, values)
    s.add(f"sum({' * '.join(v.dl for v in values)}, over={over_text(over)})", ATOM,
          f"torch.einsum('{pattern}->{text(rest)}', {py})", rest, values)


@part(1)
def looked_up(s):
    k = s.pick(lambda v: not v.has("E") and not v.has("V"), "i") or s.declare([("N", 0), ("T", 0)], "i",
        s.r.randint(2, 6))
    e = s.r.randint(1, 6)
    label, name, variable = s.labelled()
    s.variable(f"{name}.weight", s.random((k.high, e)))
    cast = " as f64" if s.real == "f64" else ""  # its own weight is f32
    s.add(f"{k.at(OR)} |> embedding({k.high}, {e}){label}{cast}", PIPE,
          f'F.embedding({k.py}, P[at + "{name}.weight"])', (*k.axes, ("E", e)), [k],
          name=variable, own=[f"{name}.weight"])


# ---- norms ----

@part(3)
def normed(s):
    kind = s.r.choice(["batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "prelu"])
    one = lambda n: {"weight": (n,), "bias": (n,)}
    if kind in ("layer_norm", "rms_norm", "prelu"):
        x = s.float(lambda v: v.axes and v.axes[-1][1] > 1, "N T E")
        affine, over = s.chance(0.75), ""
        a, n = x.axes[-1]
        if s.chance(0.3):
            a, n = s.r.choice(x.axes)
            over = f"over={a}"
        if n < 2 or a == "N":
            raise Refused
        d = x.dim(a)
        shape = "[" + ", ".join(":" if c == a else "None" for c, _ in x.axes) + "]"
        if kind == "prelu":
            call = f"prelu({over})" if over else "prelu"
            py = f"torch.where(({x.py}) > 0, ({x.py}), ({x.py}) * W(weight)W" + (shape if over else "") + ")"
            return layer(s, x, call, py, x.axes, {"weight": (n if over else 1,)})
        if (x.data.std(d, unbiased=False) < 1e-2).any():
            raise Refused
        args = ", ".join(t for t in (over, "" if affine else "affine=false") if t)
        eps = 1e-5 if kind == "layer_norm" else 1e-6
        py = f"standardise(({x.py}), {d}, {eps})" if kind == "layer_norm" else f"rms(({x.py}), {d}, {eps})"
        shapes = one(n) if kind == "layer_norm" else {"weight": (n,)}
        if affine:
            py += f" * W(weight)W{shape}" + (f" + W(bias)W{shape}" if kind == "layer_norm" else "")
        if affine:
            return layer(s, x, f"{kind}({args})" if args else kind, py, x.axes, shapes)
        return s.add(f"{x.at(OR)} |> {kind}({args})", PIPE, py, x.axes, [x])
    if kind == "batch_norm":
        x = s.float(lambda v: len(v.axes) >= 2 and v.axes[0][0] == "N" and v.data.numel() // v.axes[1][1] > 1, "N C T")
        c = x.axes[1][1]
        dims = [0, *range(2, len(x.axes))]
        if x.data.numel() // c < 2 or (x.data.std(dims, unbiased=False) < 1e-2).any():
            raise Refused
        keep = s.r.choice([0.9, 0.9, 0.5])
        call = s.r.choice(["batch_norm", "batch_norm()"]) if keep == 0.9 else f"batch_norm(momentum={keep})"
        zero, unit = s.random((c,)) * 0, s.random((c,)) * 0 + 1
        return layer(s, x, call, f"batch_norm(({x.py}), P, R, {{name}}, {keep}, 1e-5)", x.axes, one(c),
                     states=[("running_mean", zero), ("running_var", unit)])
    x = image(s)
    c = x.axes[1][1]
    groups = c if kind == "instance_norm" else s.r.choice([g for g in range(1, c + 1) if c % g == 0])
    affine = s.chance(0.5)
    if (x.data.reshape(x.shape[0], groups, -1).std(2, unbiased=False) < 1e-2).any() or x.data[0].numel() // groups < 2:
        raise Refused
    args = ([s.number(groups)] if kind == "group_norm" else []) + ([f"affine={str(affine).lower()}"]
        if affine != (kind == "group_norm") else [])
    py = f"group_norm(({x.py}), {groups}, 1e-5)"
    if affine:
        py += f" * channels(W(weight)W, {len(x.axes)}) + channels(W(bias)W, {len(x.axes)})"
        return layer(s, x, f"{kind}({', '.join(args)})" if args else kind, py, x.axes, one(c))
    s.add(f"{x.at(OR)} |> {kind}({', '.join(args)})", PIPE, py, x.axes, [x])


def tokens(s, fits=lambda v: True):
    return s.float(lambda v: [a for a, _ in v.axes] == ["N", "T", "E"] and fits(v), "N T E")


@part(1)
def shared(s):
    """One layer, applied twice."""
    x = s.named(s.float(lambda v: len(v.axes) > 1 and v.axes[-1][0] != "N", "N E"))
    n, name = x.axes[-1][1], s.name("f")
    s.variable(f"{name}.weight", s.random((n, n), scale=0.8 / n**0.5))
    s.variable(f"{name}.bias", s.random((n,)))
    f, y = s.r.choice(["tanh", "relu", "sigmoid"]), s.name()
    py = f"F.linear({{}}, P[at + '{name}.weight'], P[at + '{name}.bias'])"
    dl = s.r.choice([f"{name}({f}({name}({x.dl})))", f"{x.dl} |> {name} |> {f} |> {name}"])
    s.add(dl, PIPE, py.format(f"torch.{f}({py.format(x.py)})"), x.axes, [x], name=y,
          own=[f"{name}.weight", f"{name}.bias"])
    s.lines[-1].dl.insert(0, f"{name} = linear({s.number(n)})")
