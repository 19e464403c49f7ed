"""Productions of statements: decisions, lists of layers, several results, sums that grow, indices of several axes."""
from .values import part
from .writer import ATOM, OR, PIPE, SUM, Refused, over_text


def keeps(s, line, py):
    """Adds statements to a line that was just written."""
    s.lines[-1].dl += line
    s.lines[-1].py += py
    exec("\n".join(py), s.env)


def checked(s, value):
    """The numbers that later statements gave a name."""
    value.data = s.compute(value.py, value.axes, "f")
    return value


@part(0.8)
def decided(s):
    """if and elif, of what is known when compiling."""
    x = s.named(s.float())
    name, k = s.name(), s.r.randint(0, 4)
    known = s.r.choice([*s.numbers, "k"] if s.numbers and not s.of else ["k"])
    number = k if known == "k" else s.numbers[known]
    if known != "k" and s.of:
        raise Refused
    ways = [("tanh({})", "torch.tanh({})"), ("sin({}) * 2", "torch.sin({}) * 2"), ("relu({})", "F.relu({})")]
    s.r.shuffle(ways)
    low, high = 2, 3
    taken = 0 if number < low else 1 if number == high else 2
    v = s.add(x.dl, ATOM, x.py, x.axes, [x], name=name)
    lines = [f"k = {k}"] if known == "k" else []
    tests = [f"if {known} < {low}:", f"elif {known} == {high} and not false:", "else:"]
    for test, (dl, _) in zip(tests, ways):
        lines += [test, f"    {name} = {dl.format(name)}"] if s.chance(0.5) else [f"{test} {name} = {dl.format(name)}"]
    keeps(s, lines, [f"{name} = {ways[taken][1].format(name)}"])
    checked(s, v)


@part(0.8)
def heads(s):
    """A list of layers, applied and added up."""
    x = s.named(s.float(lambda v: len(v.axes) > 1 and v.axes[-1][0] != "N" and v.data.numel() < 400, "N E"))
    count, o, name, label = s.r.randint(2, 3), s.r.randint(1, 4), s.name("f"), s.name("heads")
    own = []
    for i in range(count):
        for role, shape in (("weight", (o, x.axes[-1][1])), ("bias", (o,))):
            s.variable(f"{label}.{i}.{role}", s.random(shape, scale=0.5))
            own.append(f"{label}.{i}.{role}")
    applied = f"F.linear({x.py}, P[at + f'{label}.{{i}}.weight'], P[at + f'{label}.{{i}}.bias'])"
    how, py = s.r.choice([("sum", "sum({})"), ("mean", f"sum({{}}) / {count}")])
    dl = f"{how}([{x.dl} |> f for f in {name}])" if s.chance(0.5) else \
        f"{how}([{name}[i]({x.dl}) for i in range(len({name}))])"
    s.add(dl, ATOM, py.format(f"[{applied} for i in range({count})]"), [*x.axes[:-1], (x.axes[-1][0], o)], [x],
          name=s.name(), own=own)
    s.lines[-1].dl.insert(0, f"{name} = [linear({s.number(o)}) @{label}.{{i}} for i in range({count})]")


@part(0.8)
def states(s):
    """A recurrent layer with its last states, of which one is read."""
    x = s.float(lambda v: [a for a, _ in v.axes] == ["N", "T", "E"], "N T E")
    if s.of:
        raise Refused
    kind, hidden, both = s.r.choice(["lstm", "gru", "rnn"]), s.r.randint(1, 4), s.chance(0.4)
    gates, label, own = {"lstm": 4, "gru": 3, "rnn": 1}[kind] * hidden, f"r{next(s.counter)}", []
    for end in ["", "_reverse"][:1 + both]:
        for role, shape in (("weight_ih", (gates, x.shape[2])), ("weight_hh", (gates, hidden)), ("bias_ih", (gates,)),
                            ("bias_hh", (gates,))):
            s.variable(f"{label}.{role}_l0{end}", s.random(shape, scale=0.5))
            own.append(f"{label}.{role}_l0{end}")
    y, h, c = s.name("y"), s.name(), s.name("c")
    py = f'recurrent("{kind}", ({x.py}), P, at + "{label}", {hidden}, bidirectional={both}, states=True)'
    first = f"{py}[1]"
    value = s.add(first, ATOM, first, [("L", 1 + both), x.axes[0], ("E", hidden)], [x], name=h, own=own, last=True)
    results = f"{y}, {h}, {c}" if kind == "lstm" else f"{y}, {h}"
    line = s.lines[-1]
    line.dl = [f"{results} = {x.at(OR)} |> {kind}({hidden}{', bidirectional=true' * both}, states=true) @{label}"]
    del value


@part(0.8)
def growing(s):
    """name += value, once or in a loop."""
    x = s.named(s.float())
    name, f = s.name(), s.r.choice(["sin", "tanh"])
    v = s.add(f"{f}({x.dl})", ATOM, f"torch.{f}({x.py})", x.axes, [x], name=name)
    if s.chance(0.5):
        keeps(s, [f"{name} += 0.5 * {x.dl}"], [f"{name} = {name} + 0.5 * {x.py}"])
    else:
        k = s.r.randint(2, 4)
        keeps(s, [f"for i in range(0, {2 * k}, 2):", "    if i == 2: pass", f"    else: {name} += {x.dl} / (i + 1)"],
              [f"for i in range(0, {2 * k}, 2):", f"    {name} = {name} + (0 if i == 2 else {x.py} / (i + 1))"])
    checked(s, v)


@part(1)
def indexed(s):
    """Several axes at once."""
    x = s.float(lambda v: sum(a != "N" and n > 1 for a, n in v.axes) > 1, "N C T")
    (a, n), (b, m) = s.r.sample([c for c in x.axes if c[0] != "N" and c[1] > 1], 2)
    i, j = s.r.randrange(-n, n), s.r.randrange(0, m)
    index = {x.dim(a): str(i), x.dim(b): f"{j}:{m}"}
    places = ", ".join(index.get(d, ":") for d in range(len(x.axes)))
    axes = [(c, m - j if c == b else k) for c, k in x.axes if c != a]
    texts = [f"{a}={i}", f"{b}={j}:"]
    s.r.shuffle(texts)
    s.add(f"{x.at(ATOM)}[{', '.join(texts)}]", ATOM, f"({x.py})[{places}]", axes, [x])


@part(0.8)
def turned(s):
    """roll, flip and pad over several axes."""
    x = s.float(lambda v: sum(a != "N" for a, _ in v.axes) > 1, "N H W")
    both = s.r.sample([c for c in x.axes if c[0] != "N"], 2)
    names, dims, p = over_text([a for a, _ in both]), tuple(x.dim(a) for a, _ in both), f"({x.py})"
    i, j = s.r.randint(-2, 2), s.r.randint(0, 2)
    way = s.r.randrange(3)
    if way == 0:
        return s.add(f"roll({x.dl}, [{i}, {j}], over={names})", ATOM, f"{p}.roll(({i}, {j}), {dims})", x.axes, [x])
    if way == 1:
        return s.add(f"flip({x.dl}, over={names})", ATOM, f"{p}.flip({dims})", x.axes, [x])
    py = p
    for d in dims:
        py = f"pad_one({py}, {d}, {j}, {j}, 'constant')"
    s.add(f"pad({x.dl}, {j}, over={names})", ATOM, py, [(a, n + 2 * j if (a, n) in both else n) for a, n in x.axes],
          [x])


@part(0.6)
def tested(s):
    """What is a number, and what is among the k largest, as factors."""
    x = s.named(s.float(lambda v: len(v.axes) > 1 and v.axes[1][0] != "N"))
    a, n = x.axes[1]
    k = None if s.chance(0.4) else s.pick(lambda v: v.named and v.high <= n and v.axes == (x.axes[0], *x.axes[2:]), "i")
    cast = f" as {s.real}"
    if k is None:
        dl, py = s.r.choice([(f"isfinite({x.dl})", "1.0"), (f"(1 - (isnan({x.dl}){cast}))", "1.0"),
                             (f"(all({x.dl} > -1, over={a}){cast})", f"({x.py} > -1).all(1, keepdim=True)")])
        return s.add(f"{x.dl} * {dl}", SUM, f"{x.py} * {py}", x.axes, [x])
    m = s.r.randint(1, n)
    if (x.data.sort(1).values.diff(dim=1).abs() < 1e-6).any() or (x.data + 1).abs().min() < 1e-6:
        raise Refused
    py = f"({x.py}.gather(1, {k.py}[:, None]) >= {x.py}.topk({m}, 1).values[:, -1:])[:, 0].double()"
    s.add(f"in_top_k({x.dl}, {k.dl}, {m}) as {s.real}", PIPE, py, k.axes, [x, k])


@part(0.8)
def planes(s):
    """Transforms of planes, with few modes, forwards and back."""
    x = s.float(lambda v: 2 < len(v.axes) < 5 and not v.has("Z") and v.axes[-1][1] > 1 and v.axes[-2][1] > 1 and
                v.axes[-1][0] != "N" and v.axes[-2][0] != "N", "N C H W")
    (a, h), (b, w) = x.axes[-2:]
    m, k = s.r.randint(1, h // 2), s.r.randint(1, w // 2 + 1)
    d = len(x.axes) - 2
    f = f"low_modes(torch.fft.rfft2({x.py}).narrow({d + 1}, 0, {k}), {m}, {d})"
    few = f"over=[{a}, {b}], modes=[{m}, {k}]"
    if s.chance(0.5):
        return s.add(f"rfft({x.dl}, {few})", ATOM, f"pairs({f})", [*x.axes[:-2], (a, 2 * m), (b, k), ("Z", 2)], [x])
    size = s.r.choice([h, h + 1])
    s.add(f"irfft(rfft({x.dl}, {few}), {few}, size=[{size}, {w}])", ATOM,
          f"torch.fft.irfft2(widened({f}, {m}, {size}, {d}), s=({size}, {w}))", [*x.axes[:-2], (a, size), (b, w)], [x])


@part(0.8)
def summed_by_number(s):
    """Segments whose numbers differ from sample to sample, and their sums read back."""
    x = s.float(lambda v: len(v.axes) > 1 and v.axes[0][0] == "N", "N T E")
    a, n = s.r.choice(x.axes[1:])
    if s.of:
        raise Refused
    count = s.r.randint(1, 4)
    k = s.pick(lambda v: v.named and v.axes == (x.axes[0], (a, n)) and v.high <= 6, "i")
    if k is None:
        if s.sizes.get(a, n) != n:
            raise Refused
        k = s.declare([x.axes[0], (a, n)], "i", count)
    count, new, d = max(count, k.high), next(c for c in "SKQX" if not x.has(c)), x.dim(a)
    others = "".join(chr(97 + i) for i in range(len(x.axes)))
    letter, batch = others[d], others[0]
    hot = f"F.one_hot({k.py}, {count}).double()"
    py = f"torch.einsum('{others},{batch}{letter}z->{others.replace(letter, 'z')}', ({x.py}), {hot})"
    axes = [(new, count) if c == a else (c, m) for c, m in x.axes]
    v = s.add(f"segment_sum({x.dl}, {k.dl}, over={a}, {new}={count})", ATOM, py, axes, [x, k], name=s.name())
    if s.chance(0.5):
        rest = [c for c in axes[1:] if c[0] != new]
        read = others.replace(letter, "z")
        back = f"{batch}{letter}" + "".join(others[x.dim(c)] for c, _ in rest)
        s.add(f"gather({v.dl}, {k.dl}, over={new})", ATOM,
              f"torch.einsum('{read},{batch}{letter}z->{back}', {v.py}, {hot})", [x.axes[0], (a, n), *rest], [v, k])
