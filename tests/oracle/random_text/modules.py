"""The production of modules: defined by lines of their own, and applied once, several times, in a loop, or shared."""
from .values import part, parts
from .writer import ATOM, COND, PIPE, Refused, Scope, Value


class Module:
    """A definition in both languages."""

    def __init__(self, name, dl, py):
        self.name, self.dl, self.py = name, dl, py


def grow(s, count, tries=12):
    """Writes so many lines, by productions drawn by their weights."""
    functions, weights = zip(*parts)
    made = 0
    for _ in range(tries * count):
        if made >= count:
            break
        before = len(s.lines), list(s.pool), dict(s.params), dict(s.states)
        try:
            s.r.choices(functions, weights)[0](s)
            made += 1
        except Refused:
            del s.lines[before[0]:]
            s.pool[:], s.params, s.states = before[1:]
    return made


def needed(lines, uses):
    """The lines from which these names are computed, in order."""
    kept, want = [], set(uses)
    for line in reversed(lines):
        if line.makes in want:
            kept.append(line)
            want |= line.uses
    return kept[::-1]


@part(2)
def module(s):
    if s.of:
        raise Refused
    x = s.named(s.float(lambda v: len(v.axes) > 1 and v.data.numel() < 500))
    z = s.pick(lambda v: v.named and v is not x) if s.chance(0.25) else None
    name, c, inner = f"Mod{next(s.counter)}", s.r.randint(1, 5), Scope(0, of=s)
    inner.numbers = {"c": c}
    given = [("x", x)] + ([("z", z)] if z else [])
    for n, v in given:
        inner.env[n] = v.data
        inner.pool.append(Value(n, ATOM, n, v.axes, "f", {n}, last=v.last, named=True, data=v.data))
    if not grow(inner, s.r.randint(1, 4)):
        raise Refused
    made = [v for v in inner.pool if v.kind == "f" and v.dl not in ("x", "z")]
    if not made:
        raise Refused
    result = s.r.choice(made[-2:])
    lines = needed(inner.lines, result.uses)
    read = result.uses.union(*(line.uses for line in lines))
    if any(n not in read for n, _ in given):  # grad would find no way to it
        raise Refused
    # an axis that is named in its type has a size here
    typed = s.chance(0.5)
    signature = ", ".join(f"{n}: [{v.names.replace(' ', ', ')}]" if typed else n for n, v in given)
    arguments = "c" if s.chance(0.5) else f"c={c}"
    if s.chance(0.2):
        arguments = f"c={c}, f=none"
    dl = [f"module {name}({arguments})({signature}):", *(f"    {t}" for line in lines for t in line.dl),
          f"    return {result.dl}"]
    py = [f"def {name}(at, {', '.join(n for n, _ in given)}):", *(f"    {t}" for line in lines for t in line.py),
          f"    return {result.py}"]
    exec("\n".join(py), s.env)
    own = {p: d for line in lines for p, d in line.params.items()}
    states = {p: d for line in lines for p, d in line.states.items()}
    apply(s, Module(name, dl, py), x, z, c, arguments, own, states, result)


def parameters(s, label, own, states):
    """Variables of one application. Returns their names."""
    for p, d in own.items():
        fresh = d.detach() + 0.25 * s.random(d.shape)
        s.variable(f"{label}.{p}", fresh)
    for p, d in states.items():
        s.state(f"{label}.{p}", d.clone())
    return [f"{label}.{p}" for p in (*own, *states)]


def apply(s, m, x, z, c, arguments, own, states, result):
    values = [x] + ([z] if z else [])
    call = s.r.choice([f"{m.name}({c})", f"{m.name}(c={c})"] + [f"{m.name}()"] * (arguments != "c"))
    label = s.r.choice(["m{}", "body.{}"]).format(next(s.counter))
    more = "".join(f", {v.py}" for v in values[1:])
    same = result.axes == x.axes and result.kind == "f"
    last = result.last
    way = s.r.randrange(4)
    if way == 0 and same:  # a loop
        count, name = s.r.randint(2, 3), s.name()
        names = [p for i in range(count) for p in parameters(s, f"{label}.{i}", own, states)]
        v = s.add(x.dl, COND, x.py, x.axes, values, name=name, own=names, last=last)
        line = s.lines[-1]
        py = [f"for i in range({count}): {name} = {m.name}(at + f\"{label}.{{i}}.\", {name}{more})"]
        exec("\n".join(py), s.env)
        s.compute(name, x.axes, "f")
        v.data = s.env[name]
        step = f"{name} |> {call}" if not z else f"{call}({name}, {z.dl})"
        line.dl.append(f"for i in range({count}): {name} = {step} @{label}.{{i}}")
        line.py += py
        line.module, line.uses = m, line.uses | set().union(*(u.uses for u in values))
        return
    if way == 1 and same:  # one set of parameters, applied twice
        bound, name = s.name("f"), s.name()
        names = parameters(s, label, own, states)
        py = f'{m.name}(at + "{label}.", {m.name}(at + "{label}.", {x.py}{more}){more})'
        inner = f"{bound}({x.dl}{', ' + z.dl if z else ''})"
        s.add(f"{bound}({inner}{', ' + z.dl if z else ''})", ATOM, py, x.axes, values, name=name, own=names,
              last=last, module=m)
        s.lines[-1].dl.insert(0, f"{bound} = {call} @{label}")
        return
    names = parameters(s, label, own, states)
    py = f'{m.name}(at + "{label}.", {x.py}{more})'
    dl = f"{call}({x.dl}{', ' + z.dl if z else ''}) @{label}" if z or s.chance(0.4) else f"{x.dl} |> {call} @{label}"
    s.add(dl, PIPE, py, result.axes, values, own=names, last=last, module=m, force=True)
