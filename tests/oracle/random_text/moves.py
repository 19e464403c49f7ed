"""Productions of moves: slices, concatenations, paddings, other axes, rows by number, sums by number."""
from .values import aligned, part
from .writer import ATOM, OR, PIPE, Refused


@part(2.5)
def sliced(s):
    x = s.float(lambda v: any(n > 1 and a != "N" for a, n in v.axes))
    a, n = s.r.choice([c for c in x.axes if c[1] > 1 and c[0] != "N"])
    d = x.dim(a)
    if s.chance(0.4):
        i = s.r.randrange(-n, n)
        return s.add(f"{x.at(ATOM)}[{a}={i}]", ATOM, f"({x.py}).select({d}, {i % n})",
                     [c for c in x.axes if c[0] != a], [x])
    i = s.r.randrange(0, n)
    j = s.r.randint(i + 1, n)
    step = s.r.choice([1, 1, 2])
    first = "" if i == 0 and s.chance(0.7) else str(i)
    last = "" if j == n and s.chance(0.7) else str(j - n if j < n and s.chance(0.3) else j)
    cut = f"{first}:{last}" + (f":{step}" if step > 1 else "")
    colons = ", ".join([":"] * d + [f"{i}:{j}:{step}"])
    s.add(f"{x.at(ATOM)}[{a}={cut}]", ATOM, f"({x.py})[{colons}]",
          [(c, len(range(i, j, step)) if c == a else m) for c, m in x.axes], [x])


@part(2)
def joined_up(s):
    x = s.float(lambda v: v.axes)
    a, n = s.r.choice(x.axes)
    if a == "N":
        raise Refused
    d = x.dim(a)
    same = lambda v: sorted(c for c in v.axes if c[0] != a) == sorted(c for c in x.axes if c[0] != a) and v.has(a)
    others = [v for v in (s.pick(same) for _ in range(s.r.choice([1, 1, 2]))) if v] or [s.named(x)]
    values = [x, *others]
    if not x.named and others[0].py != x.py and others[0].uses and x in others:
        raise Refused
    axes = [(c, sum(v.size(a) for v in values) if c == a else m) for c, m in x.axes]
    py = "torch.cat([" + ", ".join(aligned(v, x.axes) for v in values) + f"], {d})"
    texts = ", ".join(v.dl for v in values)
    s.add(f"cat({'[' * (k := s.chance(0.2))}{texts}{']' * k}, over={a})", ATOM, py, axes, values)


@part(2)
def moved(s):
    x = s.float(lambda v: any(a != "N" for a, _ in v.axes))
    dims = s.r.sample([c for c in x.axes if c[0] != "N"], 1)
    a, n = dims[0]
    d, p = x.dim(a), f"({x.py})"
    way = s.r.randrange(4)
    if way == 0:
        k = s.r.randint(-n, n)
        return s.add(f"roll({x.dl}, {k}, over={a})", ATOM, f"{p}.roll({k}, {d})", x.axes, [x])
    if way == 1:
        b, e = s.r.randint(0, 2), s.r.randint(0, 2)
        return s.add(f"pad({x.dl}, [{b}, {e}], over={a})", ATOM, f"pad_one({p}, {d}, {b}, {e}, 'constant')",
                     [(c, m + b + e if c == a else m) for c, m in x.axes], [x])
    if way == 2:
        mode, most = s.r.choice([("circular", n), ("reflect", n - 1), ("replicate", 2)])
        b = min(s.r.randint(1, 2), most)
        if b < 1:
            raise Refused
        return s.add(f'pad({x.dl}, {b}, mode="{mode}", over={a})', ATOM, f"pad_one({p}, {d}, {b}, {b}, '{mode}')",
                     [(c, m + 2 * b if c == a else m) for c, m in x.axes], [x])
    k = s.r.randint(1, 3)
    new = next(c for c in "BGJQX" if not x.has(c))
    if s.chance(0.5):
        return s.add(f"expand({x.dl}, {new}={k})", ATOM, f"{p}[..., None].repeat_interleave({k}, {len(x.axes)})",
                     (*x.axes, (new, k)), [x])
    at = s.r.randint(0, len(x.axes))
    axes = list(x.axes)
    axes.insert(at, (new, 1))
    s.add(f"unsqueeze({x.dl}, over={new}, at={at})", ATOM, f"{p}.unsqueeze({at})", axes, [x])


@part(1.5)
def renamed(s):
    x = s.float(lambda v: any(a != "N" for a, _ in v.axes))
    a, n = s.r.choice([c for c in x.axes if c[0] != "N"])
    new = next((c for c in s.r.sample("CEFHKSTUVW", 10) if not x.has(c) and s.sizes.get(c, n) == n), None)
    if new is None:
        raise Refused
    axes = [(new if c == a else c, m) for c, m in x.axes]
    names = ", ".join(f"{c}={m}" if c != "N" and s.chance(0.2) else c for c, m in axes)
    s.add(f"{x.at(OR)} as [{names}]", PIPE, f"({x.py}) * 1", axes, [x])


@part(1.5)
def rearranged(s):
    x = s.float(lambda v: 2 <= len(v.axes) <= 4, "N T E")
    order = s.r.sample(list(x.axes), len(x.axes))
    low = lambda axes: " ".join(a.lower() for a, _ in axes)
    if len(set(low(x.axes).split())) < len(x.axes):
        raise Refused
    places = ", ".join(str(x.dim(a)) for a, _ in order)
    if s.chance(0.5):
        return s.add(f'{x.at(OR)} |> rearrange("{low(x.axes)} -> {low(order)}")', PIPE, f"({x.py}).permute({places})",
                     order, [x])
    first, last = order[:-2], order[-2:]
    if last[0][0] == "N" or last[1][0] == "N" or len(order) < 3:
        raise Refused
    new = next(c for c in "EFGJK" if c not in dict(first))
    axes = [*first, (new, last[0][1] * last[1][1])]
    names = ", ".join(a for a, _ in axes)
    s.add(f'{x.at(OR)} |> rearrange("{low(x.axes)} -> {low(first)} ({low(last)})") as [{names}]', PIPE,
          f"({x.py}).permute({places}).reshape({[n for _, n in axes]})", axes, [x])


@part(1.5)
def gathered(s):
    """Rows by number, along an axis of their own."""
    x = s.float(lambda v: any(a != "N" for a, _ in v.axes))
    a, n = s.r.choice([c for c in x.axes if c[0] != "N"])
    way = s.r.randrange(3)
    if way == 0:  # by a list
        new = next(c for c in "KJQX" if not x.has(c))
        rows = [s.r.randrange(n) for _ in range(s.r.randint(1, 4))]
        rest = [c for c in x.axes if c[0] != a]
        py = f"({x.py}).movedim({x.dim(a)}, 0)[torch.tensor({rows})]"
        return s.add(f"gather({x.dl}, {rows} as [{new}], over={a})", ATOM, py, [(new, len(rows)), *rest], [x])
    shared = x.has("N") and s.chance(0.6)
    new = next(c for c in "KJQX" if not x.has(c) and c not in s.sizes)
    k = s.pick(lambda v: v.named and v.high <= n and (v.has("N") == shared) and not v.has(a) and len(v.axes) <= 2
               and all(c[0] == "N" or not x.has(c[0]) for c in v.axes), "i")
    if k is None:
        k = s.declare([("N", 0), (new, s.r.randint(1, 4))] if shared else [(new, s.r.randint(1, 4))], "i", n)
        if k.has("N") != shared:
            shared = k.has("N") and x.has("N")
    rest = [c for c in x.axes if c[0] != a and not k.has(c[0])]
    letters = {c: chr(97 + i) for i, (c, _) in enumerate(dict.fromkeys([*x.axes, *k.axes]))}
    hot = f"F.one_hot({k.py}, {n}).double()"
    text = lambda axes: "".join(letters[c] for c, _ in axes)
    py = f"torch.einsum('{text(x.axes)},{text(k.axes)}{letters[a]}->{text((*k.axes, *rest))}', ({x.py}), {hot})"
    s.add(f"gather({x.dl}, {k.dl}, over={a})", ATOM, py, (*k.axes, *rest), [x, k])


@part(1.5)
def segmented(s):
    x = s.float(lambda v: any(a != "N" for a, _ in v.axes))
    a, n = s.r.choice([c for c in x.axes if c[0] != "N"])
    f = s.r.choice(["segment_sum", "segment_sum", "segment_mean", "segment_max", "segment_min"])
    count = s.r.randint(1, 5)
    new = next(c for c in "SKQX" if not x.has(c))
    rows = [s.r.randrange(-1 if s.chance(0.2) else 0, count + s.chance(0.1)) for _ in range(n)]
    py = f"segments(({x.py}), torch.tensor({rows}), {x.dim(a)}, {count}, '{f[8:]}')"
    axes = [(new, count) if c == a else (c, m) for c, m in x.axes]
    s.add(f"{f}({x.dl}, ({rows} as [{a}]), over={a}, {new}={count})", ATOM, py, axes, [x])
