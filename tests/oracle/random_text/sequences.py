"""Productions of sequences: attention, recurrence, scans, transforms."""
from .layers import layer, tokens
from .values import aligned, fit, joined, part
from .writer import ATOM, Refused, over_text


@part(2.5)
def attention(s):
    q = s.named(tokens(s))
    n, t, e = q.shape
    heads = s.r.choice([h for h in (1, 2, 3, 4) if e % h == 0])
    kv_heads = s.r.choice([h for h in range(1, heads + 1) if heads % h == 0]) if s.chance(0.3) else heads
    width = e // heads * kv_heads
    if width == e and s.chance(0.5):
        k = v = q
        kd, keys, size = f"{q.dl} as [N, S, E]", "S", t
        uses = [q]
    else:
        size = s.size("S")
        k = s.declare([("N", 0), ("S", 0), ("E", width)])
        v = s.declare([("N", 0), ("S", 0), ("E", width)]) if s.chance(0.5) else k
        kd, keys, uses = k.dl, "S", [q, k, v]
    vd = kd if v is k else v.dl
    more, args = "", ""
    if kv_heads != heads:
        more, args = more + f", kv_heads={kv_heads}", args + f", kv_heads={kv_heads}"
    if s.chance(0.3):
        more, args = more + ", causal=true", args + ", causal=True"
    if s.sizes.get(keys, size) == size and s.of is None:
        if s.chance(0.35):
            shape = s.r.choice([[("N", 0), (keys, size)], [("T", t), (keys, size)]])
            if all(s.sizes.get(c, m) == m for c, m in shape if m):
                m = s.declare(shape, "b")
                more += f", mask={m.dl}"
                args += f", mask=to({m.py}, '{m.names}', 'N H T {keys}')"
                uses.append(m)
        if s.chance(0.35) and s.sizes.get("T", t) == t:
            b = s.declare([("H", heads), ("T", t), (keys, size)]) if s.sizes.get("H",
                heads) == heads else s.declare([("T", t), (keys, size)])
            more += f", bias={b.dl}"
            args += f", bias=to({b.py}, '{b.names}', 'N H T {keys}')"
            uses.append(b)
    s.add(f"attention({q.dl}, {kd}, {vd}, {heads}{more})", ATOM, f"attend({q.py}, {k.py}, {v.py}, {heads}{args})",
          q.axes, uses)


@part(1.5)
def recurrence(s):
    x = tokens(s)
    kind = s.r.choice(["lstm", "gru", "rnn"])
    hidden, layers, both, bias = s.r.randint(1, 5), s.r.choice([1, 1, 2]), s.chance(0.3), s.chance(0.8)
    args, how = f", {layers}, {both}, {bias}", ""
    more = f", layers={layers}" * (layers > 1) + ", bidirectional=true" * both + ", bias=false" * (not bias)
    uses = [x]
    if kind == "rnn" and s.chance(0.4):
        more, how = more + ', nonlinearity="relu"', ", nonlinearity='relu'"
    gates, directions, e = {"lstm": 4, "gru": 3, "rnn": 1}[kind] * hidden, 1 + both, x.shape[2]
    if s.chance(0.25) and not s.of:
        parts = layers * directions
        shape = [("L", parts), ("N", 0), ("E", hidden)]
        if s.sizes.get("L", parts) == parts:
            h = s.declare(shape)
            more, how, uses = more + f", h0={h.dl}", how + f", h0={h.py}", uses + [h]
            if kind == "lstm":
                c = s.declare(shape)
                more, how, uses = more + f", c0={c.dl}", how + f", c0={c.py}", uses + [c]
    shapes = {}
    for i in range(layers):
        for end in ["", "_reverse"][:directions]:
            shapes[f"weight_ih_l{i}{end}"] = (gates, e if i == 0 else hidden * directions)
            shapes[f"weight_hh_l{i}{end}"] = (gates, hidden)
            if bias:
                shapes[f"bias_ih_l{i}{end}"], shapes[f"bias_hh_l{i}{end}"] = (gates,), (gates,)
    py = f"recurrent('{kind}', ({x.py}), P, {{name}}, {hidden}{args}{how})"
    layer(s, x, f"{kind}({s.number(hidden)}{more})", py, [*x.axes[:2], ("E", hidden * directions)], shapes, last=True,
          more=uses[1:])


@part(1.5)
def scanned(s):
    x = s.float(lambda v: len(v.axes) > 1)
    a, n = s.r.choice(x.axes)
    d, reverse = x.dim(a), s.chance(0.3)
    more = ", reverse=true" if reverse else ""
    if s.chance(0.4):
        k = s.r.choice([0.5, 0.9, -0.5])
        return s.add(f"linear_scan({k}, {x.dl}, over={a}{more})", ATOM, f"scan({k}, ({x.py}), {d}, {reverse})",
                     x.axes, [x])
    f = s.pick(lambda v: fit(x, v) and all(x.has(c) for c, _ in v.axes))
    if f is None:
        raise Refused
    axes = joined(f, x)
    d = [c for c, _ in axes].index(a)
    s.add(f"linear_scan(sigmoid({f.dl}), {x.dl}, over={a}{more})", ATOM,
          f"scan(torch.sigmoid({aligned(f, axes)}), {aligned(x, axes)}, {d}, {reverse})", axes, [f, x])


@part(2)
def transformed(s):
    """Fourier transforms over one or two axes, with all modes or few."""
    complex_ = lambda v: v.axes and v.axes[-1] == ("Z", 2) and len(v.axes) > 1
    norm = s.r.choice(["", "", "ortho", "forward"])
    more, how = (f', norm="{norm}"', f", norm='{norm}'") if norm else ("", "")
    z = s.pick(lambda v: complex_(v) and any(c not in "NZ" for c, _ in v.axes)) if s.chance(0.6) else None
    if z is not None:
        a, n = s.r.choice([c for c in z.axes[:-1] if c[0] != "N"])
        d, p = z.dim(a), f"whole({z.py})"
        way = s.r.randrange(4)
        if way == 0 and n > 1:
            size = s.r.choice([2 * n - 2, 2 * n - 1])
            return s.add(f"irfft({z.dl}, over={a}, size={size}{more})", ATOM,
                         f"torch.fft.irfft({p}, {size}, dim={d}{how})",
                         [(c, size if c == a else m) for c, m in z.axes[:-1]], [z])
        if way == 1:
            f = s.r.choice(["fft", "ifft"])
            return s.add(f"{f}({z.dl}, over={a}{more})", ATOM, f"pairs(torch.fft.{f}({p}, dim={d}{how}))", z.axes, [z])
        c, _ = s.r.choice(z.axes[:-1])
        o = s.r.randint(1, 4)
        new = next(k for k in "OKMQ" if not z.has(k))
        w = s.declare([(c, z.size(c)), (new, o), *([z.axes[-2]] if z.axes[-2][0] != c and s.chance(0.5) else []),
                       ("Z", 2)]) if \
            c != "N" and s.sizes.get(new, o) == o else None
        if w is None or w.has("N"):
            raise Refused
        letters = {k: chr(97 + i) for i, (k, _) in enumerate(joined(z, w)) if k != "Z"}
        text = lambda axes: "".join(letters[k] for k, _ in axes if k != "Z")
        axes = [((new, o) if k == c else (k, m)) for k, m in z.axes]
        pattern = f"{text(z.axes)},{text(w.axes)}->{text(axes)}"
        return s.add(f'complex_einsum("{pattern}", {z.dl}, {w.dl})', ATOM,
                     f"pairs(torch.einsum('{pattern}', {p}, whole({w.py})))", axes, [z, w])
    x = s.float(lambda v: 0 < len(v.axes) < 4 and not v.has("Z") and any(a != "N" for a, _ in v.axes), "N C W")
    free = [c for c in x.axes if c[0] != "N"]
    over = s.r.sample(free, min(len(free), s.r.choice([1, 1, 2])))
    dims = tuple(x.dim(a) for a, _ in over)
    p = f"({x.py})"
    half = over[-1][1] // 2 + 1
    if len(over) == 1 and half > 1 and s.chance(0.4):
        m = s.r.randint(1, half)
        f = f"torch.fft.rfft({p}, dim={dims[0]}{how}).narrow({dims[0]}, 0, {m})"
        axes = [(c, m if c == over[0][0] else k) for c, k in x.axes]
        if s.chance(0.5):
            a, few = over[0][0], f"over={over[0][0]}, modes={m}"
            dl = f"irfft(rfft({x.dl}, {few}{more}), {few}, size={over[0][1]}{more})"
            return s.add(dl, ATOM, f"torch.fft.irfft({f}, {over[0][1]}, dim={dims[0]}{how})", x.axes, [x])
        return s.add(f"rfft({x.dl}, over={over[0][0]}, modes={m}{more})", ATOM, f"pairs({f})", (*axes, ("Z", 2)), [x])
    axes = [(c, half if c == over[-1][0] else k) for c, k in x.axes]
    s.add(f"rfft({x.dl}, over={over_text([a for a, _ in over])}{more})", ATOM,
          f"pairs(torch.fft.rfftn({p}, dim={dims}{how}))", (*axes, ("Z", 2)), [x])


@part(0.6)
def embedded_steps(s):
    x = s.float(lambda v: v.axes and not v.has("E"), "N")
    f = 2 * s.r.randint(1, 3)
    angle = f"(({x.py})[..., None] * 100.0**(-torch.arange({f // 2}, dtype=torch.float64) / {f // 2}))"
    s.add(f"timestep_embedding({x.dl}, {f}, max_period=100.0)", ATOM,
          f"torch.cat([torch.cos({angle}), torch.sin({angle})], -1)", (*x.axes, ("E", f)), [x])
