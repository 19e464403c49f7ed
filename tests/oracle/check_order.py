"""check_order.py BUILD: the order of the axes of every op with several operands, next to PyTorch.

docs/reference/language.md: an operand that has all axes gives the order, whichever side it stands on. It, [N, B, H,
W], stands in each place of each op; the others have some of them, in another order. Where none has all, `merged` is
the rule, stated by trying all orders. `as [P, Q, R, S]` names the result's axes by position, so that a wrong order
meets the wrong weights: values and gradients are then others than PyTorch's, whose broadcasting is written out. A
second model of the same lines has four sizes, which `as [P=..]` states: `dlc check` refuses an order that differs.
"""
import itertools
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from checks import some
from oracle_tools import ROOT, Workplace, check, finish, load_tensors, relative, save_tensors, torch
from random_text.writer import merged as order_of

F = torch.nn.functional
place = Workplace(sys.argv[1])
torch.manual_seed(7)
ALL = "NBHW"
cases = []  # the expression, its value in PyTorch of tensors by name, the result's axes


def aligned(t, axes):
    """t with its axes in the order N, B, H, W, and one of size 1 where it has none."""
    t = t.permute([axes.index(a) for a in ALL if a in axes])
    return t.reshape([t.shape[[b for b in ALL if b in axes].index(a)] if a in axes else 1 for a in ALL])


# Parameters, so that gradients reach them: the full one, the same in another order, and parts in strange orders.
tensors = {"x": "NBHW", "z": "WHBN", "s": "H", "r": "WN", "q": "HB", "u": "NBW", "y": "BHW",
           "o": "HWN"}


def case(text, value, axes=ALL):
    cases.append((text, value, axes))


def merged(*operands):
    return "".join(order_of(*operands))


assert merged("NCK", "COK") == "NCOK" and merged("NT", "NS") == "NTS" and merged("NTE", "VE") == "NTVE"
assert merged("HW", "WHN") == "HWN" and merged("NCHW", "OC") == "NOCHW" and merged("AB", "AC", "CB") == "ACB"

binary = {"{} + {}": torch.add, "{} - {}": torch.sub, "{} * {}": torch.mul, "{} / (2 + abs({}))": lambda a,
          b: a / (2 + abs(b)),
          "(1 + abs({}))**{}": lambda a, b: (1 + abs(a))**b, "max({}, {})": torch.maximum, "min({}, {})": torch.minimum,
          "sum([{}, {}])": torch.add, "prod([{}, {}])": torch.mul, "max([{}, {}])": torch.maximum,
          "mean([{}, {}])": lambda a, b: (a + b) / 2}
compare = {"<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge, "==": torch.eq, "!=": torch.ne}
for form, f in binary.items():
    for part in ("s", "r", "q"):
        case(form.format("x", part), lambda t, f=f, p=part: f(t["x"], t[p]))
        case(form.format(part, "x"), lambda t, f=f, p=part: f(t[p], t["x"]))
    case(form.format("x", "z"), lambda t, f=f: f(t["x"], t["z"]))  # two have them all: the first one's order
    case(form.format("z", "x"), lambda t, f=f: f(t["z"], t["x"]), "WHBN")
for sign, f in compare.items():
    for part in ("s", "r"):
        case(f"x * 0 + (x {sign} {part})", lambda t, f=f, p=part: f(t["x"], t[p]).double())
        case(f"(({part} {sign} x) as f32) * 2", lambda t, f=f, p=part: f(t[p], t["x"]).double() * 2)
for word, f in (("and", torch.logical_and), ("or", torch.logical_or)):
    case(f"(((s > 0) {word} (x > 0)) as f32) * 3", lambda t, f=f: f(t["s"] > 0, t["x"] > 0).double() * 3)
    case(f"(((x > 0) {word} (r > 0)) as f32) * 3", lambda t, f=f: f(t["x"] > 0, t["r"] > 0).double() * 3)
# none has all axes
for a, b in itertools.permutations("srquyo", 2):
    if set(tensors[a] + tensors[b]) != set(ALL):
        continue
    axes = merged(tensors[a], tensors[b])
    case(f"{a} * {b}", lambda t, a=a, b=b: t[a] * t[b], axes)
for a, b, c in itertools.permutations("srquyo", 3):
    axes = merged(tensors[a], tensors[b], tensors[c])
    if len(axes) == 4:
        case(f"prod([{a}, {b}, {c}])", lambda t, n=(a, b, c): t[n[0]] * t[n[1]] * t[n[2]], axes)
        if (a, b, c) in (("r", "q", "s"), ("u", "r", "y"), ("y", "o", "u"), ("o", "u", "s")):  # each warns
            case(f"where({a} > 0, {b}, {c})", lambda t, n=(a, b, c): torch.where(t[n[0]] > 0, t[n[1]], t[n[2]]),
                 axes)
small = ("s", "r", "q", "0.25")
for a in small:
    for b in small:
        one = lambda t, k: t[k] if k in t else torch.tensor(float(k)).double()
        case(f"where(x > 0, {a}, {b}) + 0 * x", lambda t, a=a, b=b: torch.where(t["x"] > 0, one(t, a), one(t, b)))
        case(f"where({a} > 0.1, x, {b})" if a in "srq" else f"where(s <= 0.1, x, {b})",
             lambda t, a=a, b=b: torch.where(one(t, a) > 0.1 if a in "srq" else t["s"] <= 0.1, t["x"], one(t, b)))
        case(f"where({a} > 0.1, {b}, x)" if a in "srq" else f"where(s <= 0.1, {b}, x)",
             lambda t, a=a, b=b: torch.where(one(t, a) > 0.1 if a in "srq" else t["s"] <= 0.1, one(t, b), t["x"]))
for k in range(3):  # of three in a list
    names = ["r", "q", "s"]
    names[k] = "x"
    for what, f in (("sum", lambda *v: v[0] + v[1] + v[2]), ("prod", lambda *v: v[0] * v[1] * v[2]),
                    ("max", lambda *v: torch.maximum(torch.maximum(v[0], v[1]), v[2]))):
        case(f"{what}([{', '.join(names)}])", lambda t, f=f, n=tuple(names): f(*(t[i] for i in n)))
for name, f in (("mse_loss", F.mse_loss), ("l1_loss", F.l1_loss), ("huber_loss", F.huber_loss),
                ("smooth_l1_loss", F.smooth_l1_loss)):
    case(f'{name}(x, z, reduction="none")', lambda t, f=f: f(t["x"], t["z"], reduction="none"))
    case(f'{name}(z, x, reduction="none")', lambda t, f=f: f(t["z"], t["x"], reduction="none"), "WHBN")
bce = F.binary_cross_entropy_with_logits
for part in ("s", "r", "q", "z"):
    case(f'bce_with_logits(x, z, weight=stop_gradient(abs({part})), reduction="none")', lambda t,
         p=part: bce(t["x"], t["z"], weight=abs(t[p]).detach(), reduction="none"))
    case(f'bce_with_logits(x, z, pos_weight=stop_gradient(abs({part})), reduction="none")',
         lambda t, p=part: bce(t["x"], t["z"], pos_weight=abs(t[p]).detach(), reduction="none"))
for more, of in (("", {}), (", ignore_index=1", {"ignore_index": 1}),
                 (", weight=([1, 2, 3] as [B])", {"weight": torch.tensor([1.0, 2, 3]).double()}),
                 (", label_smoothing=0.1", {"label_smoothing": 0.1}),
                 (", weight=([1, 2, 3] as [B]), label_smoothing=0.1, ignore_index=2",
                  {"weight": torch.tensor([1.0, 2, 3]).double(), "label_smoothing": 0.1, "ignore_index": 2})):
    case('cross_entropy(x, k, over=B, reduction="none"%s)' % more,
         lambda t, of=of: F.cross_entropy(t["x"], t["k"], reduction="none", **of), "NHW")
case('cross_entropy(x, softmax(z, over=B), over=B, reduction="none")',
     lambda t: F.cross_entropy(t["x"], torch.softmax(t["z"], 1), reduction="none"), "NHW")
# gather: the numbers' axes come first, in their order, then those of x that the numbers lack
case("gather(x, j, over=B)",
     lambda t: torch.gather(t["x"], 1, t["j"][:, None, :, None].expand(-1, 1, -1, t["x"].shape[3]))[:, 0], "HNW")
# what a diagnostic advises for a function of PyTorch that is not there (frontends/dl/hints.def), as it says it
hints = dict(re.findall(r'HINT\(CALL, "(\w+)", "(.*)"\)', (ROOT / "frontends/dl/hints.def").read_text()))
case(hints["erfc"], lambda t: torch.erfc(t["x"]))
case("cat(x, x, over=N)[N=:x.N]", lambda t: t["x"])
case("cat(x, z, over=N)[N=x.N:]", lambda t: t["z"])
case("cat([z, x, z], over=H)[H=x.H:2*x.H]", lambda t: t["x"], "WHBN")


def model(sizes):
    """The cases as one model; the sizes of N, B, H, W. The weight of a case has axes by position."""
    out = ["model Order():", "    input v: f32[N, V=1]"]
    size = dict(zip(ALL, sizes))
    out += [f"    param {n}: [{', '.join(f'{a}={size[a]}' for a in axes)}] ~ normal(0, 1)"
            for n, axes in tensors.items()]
    out += [f"    input k: i32[W={size['W']}, H={size['H']}, N]", f"    input j: i32[H={size['H']}, N]"]
    out += [f"    param g{i}: [{', '.join(f'{p}={size[a]}' for p, a in zip('PQRS', axes))}] ~ normal(0, 1)"
            for i, (_, _, axes) in enumerate(cases)]
    out += ["    output x", "    loss = sum(v) * 0.0"]
    for i, (text, _, axes) in enumerate(cases):
        names = ", ".join(f"{p}={size[a]}" for p, a in zip("PQRS", axes))
        out.append(f"    loss += sum(g{i} * (({text}) as [{', '.join(axes)}] as [{names}]))")
    return "\n".join(out) + "\n"


path = place / "order.dl"
path.write_text(model((2, 3, 4, 5)))  # an order that differs is an axis of another size
refused = place.run("dlc", "check", path, "--local_batch_size=2")
check("error" not in refused, "every case has the axes of the operand that has them all")

# Numbers: of a share, each op with its full operand in some of the places; `dlc check` has seen all.
cases = some(cases, lambda c: re.sub(r"\b[xzsrquyo]\b", "_", c[0]), 3)
path.write_text(model((3, 3, 3, 3)))  # an order that differs is another number
held = {n: torch.randn([3] * len(axes)) for n, axes in tensors.items()}
held.update({f"g{i}": torch.randn([3] * len(axes)) for i, (_, _, axes) in enumerate(cases)})
fed = {"v": torch.ones(3, 1), "k": torch.randint(0, 3, (3, 3, 3), dtype=torch.int32),
       "j": torch.randint(0, 3, (3, 3), dtype=torch.int32)}
save_tensors(place / "w.safetensors", held)
save_tensors(place / "b.safetensors", {f"{n}.0": t for n, t in fed.items()})
place.run("dlrun", path, "--local_batch_size=3", f"--expdir={place / 'run'}",
          f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd",
          f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}")
got = load_tensors(place / "g.safetensors")
leaves = {n: held[n].double().requires_grad_() for n in tensors}
t = {n: aligned(leaves[n], axes) for n, axes in tensors.items()}
t.update(k=fed["k"].permute(2, 1, 0).long(), j=fed["j"].permute(1, 0).long())
loss = 0
for i, (text, value, axes) in enumerate(cases):
    v = value(t)
    v = torch.broadcast_to(v, (3, 3, 3, 3)) if len(axes) == 4 else v
    natural = ALL if len(axes) == 4 else "NHW"
    v = v.permute([natural.index(a) for a in axes])  # as this language orders it
    off = relative(got[f"g{i}"].double(), v.detach())  # the gradient of its weight is the value itself
    check(off < 1e-5, f"{text}: the values by position are {off:.2g} off")
    loss = loss + (held[f"g{i}"].double() * v).sum()
loss.backward()
for n in tensors:
    off = relative(got[n].double(), leaves[n].grad)
    check(off < 1e-4, f"gradient of {n}: {off:.2g} off")
finish()
