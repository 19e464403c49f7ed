"""check_language.py BUILD: what the model language adds up from ops, compiled, against PyTorch in float64.

Losses, their reductions and weights, constants, casts, and the gradient that PyTorch chooses where there are several
(docs/reference/functions.md, "Gradients at kinks"): each a case of one model, with parameters of its own. Then whole
models with shared layers: losses of five steps, the first gradients, weights and running statistics at the end.
"""
import copy
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch

F = torch.nn.functional
N = 4
torch.manual_seed(5)
place = Workplace(sys.argv[1])
inf, nan = float("inf"), float("nan")


def replay(text, weights, batches, *more, status=0):
    """Lines by step, the first gradients, the weights at the end; only the output of a run that ends with another
    status."""
    path = place / "model.dl"
    path.write_text(text)
    (place / "m.yaml").write_text("base: {}\n")
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {f"{k}.{i}": v for i, b in enumerate(batches) for k, v in b.items()})
    for name in ("g.safetensors", "end.safetensors"):
        (place / name).unlink(missing_ok=True)
    out = place.run("dlrun", path, f"--yaml_config={place / 'm.yaml'}", "--config=base", f"--local_batch_size={N}",
                    f"--expdir={place / 'run'}", f"--init_weights={place / 'w.safetensors'}",
                    f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}",
                    f"--save_weights={place / 'end.safetensors'}", *more, status=status)
    if status:
        return out
    lines = [json.loads(x) for x in out.splitlines() if x.startswith("{") and '"step"' in x]
    return lines, load_tensors(place / "g.safetensors"), load_tensors(place / "end.safetensors")


# Cases: parameters and inputs with their axes, an expression of each language.
cases = []


def case(name, dl, expect, params, inputs=()):
    """params, inputs: {name: (axes, tensor)}; in `dl` they are written {name}."""
    cases.append((name, dl, expect, params, dict(inputs)))


def P(axes, *shape, scale=1.0):
    return axes, torch.randn(shape) * scale


def whole(axes, high, *shape):
    return axes, torch.randint(0, high, shape, dtype=torch.int32)


# cross-entropy
for scale in (1.0, 300.0):  # scores that overflow without care
    y, t, w = P("N, C=5", N, 5, scale=scale), whole("N", 5, N), ("C=5", torch.rand(5) + 0.1)
    image, labels = P("N, C=3, H=4, W=5", N, 3, 4, 5, scale=scale), whole("N, H=4, W=5", 3, N, 4, 5)
    tokens, words = P("N, T=6, V=7", N, 6, 7, scale=scale), whole("N, T=6", 7, N, 6)
    shares = ("N, C=5", torch.softmax(torch.randn(N, 5), 1))
    w3, shares3 = ("C=3", torch.rand(3) + 0.1), ("N, C=3, H=4, W=5", torch.softmax(torch.randn(N, 3, 4, 5), 1))
    some = labels[0], torch.where(torch.rand(N, 4, 5) < 0.3, torch.tensor(-100, dtype=torch.int32), labels[1])
    L = torch.long
    for s in (0, 0.1, 1):
        more = f", label_smoothing={s}" if s else ""
        at = f"cross-entropy, scale {scale:g}, smoothing {s}"
        case(at, "cross_entropy({y}, {t}%s)" % more, lambda y, t, s=s: F.cross_entropy(y, t.to(L), label_smoothing=s),
             {"y": y}, {"t": t})
        case(at + ", image", "cross_entropy({y}, {t}%s)" % more, lambda y, t,
             s=s: F.cross_entropy(y, t.to(L), label_smoothing=s),
             {"y": image}, {"t": labels})
        case(at + ", tokens", "cross_entropy({y}, {t}%s)" % more,
             lambda y, t, s=s: F.cross_entropy(y.transpose(1, 2), t.to(L), label_smoothing=s), {"y": tokens},
             {"t": words})
        case(at + ", weights", "cross_entropy({y}, {t}, weight={w}%s)" % more,
             lambda y, t, w, s=s: F.cross_entropy(y, t.to(L), weight=w, label_smoothing=s), {"y": image},
             {"t": labels, "w": w3})
        case(at + ", weights, some ignored", "cross_entropy({y}, {t}, weight={w}, ignore_index=-100%s)" % more,
             lambda y, t, w, s=s: F.cross_entropy(y, t.to(L), weight=w, label_smoothing=s), {"y": image},
             {"t": some, "w": w3})
        case(at + ", some ignored, none",
             "sum({g} * cross_entropy({y}, {t}, ignore_index=-100, reduction=\"none\"%s))" % more,
             lambda y, t, g, s=s: (g * F.cross_entropy(y, t.to(L), label_smoothing=s, reduction="none")).sum(),
             {"y": image}, {"t": some, "g": ("N, H=4, W=5", torch.randn(N, 4, 5))})
        case(at + ", shares", "cross_entropy({y}, {t}%s)" % more, lambda y, t,
             s=s: F.cross_entropy(y, t, label_smoothing=s),
             {"y": y}, {"t": shares})
        case(at + ", shares, image, weights", "cross_entropy({y}, {t}, weight={w}, reduction=\"sum\"%s)" % more,
             lambda y, t, w, s=s: F.cross_entropy(y, t, weight=w, label_smoothing=s, reduction="sum"), {"y": image},
             {"t": shares3, "w": w3})
    case(f"distillation, scale {scale:g}", "cross_entropy({y}, stop_gradient(softmax({z} / 2, over=C)))",
         lambda y, z: F.cross_entropy(y, torch.softmax(z / 2, 1).detach()), {"y": y, "z": P("N, C=5", N, 5)})
case("class weights as a list", "cross_entropy({y}, {t}, weight=([0.5, 2, 2, 1, 0.25] as [C]))",
     lambda y, t: F.cross_entropy(y, t.long(), weight=torch.tensor([0.5, 2, 2, 1, 0.25]).double()),
     {"y": P("N, C=5", N, 5)},
     {"t": whole("N", 5, N)})

# binary cross-entropy: at 0, where max and abs have their kinks, and where exp overflows or vanishes
scores = ("N, K=9", torch.tensor([0.0, -0.0, 1.0, -1.5, 17.0, -20.0, 90.0, -90.0, 1e4]).repeat(N, 1))
half = ("N, K=9", torch.rand(N, 9))
sure = ("N, K=9", (scores[1] > 0).float())  # the right answers: losses far below the scores' digits
for t in (half, sure):
    case("bce", "bce_with_logits({y}, {t})", lambda y, t: F.binary_cross_entropy_with_logits(y, t), {"y": scores},
         {"t": t})
    for how in ("sum", "mean"):
        case(f"bce, weights, {how}", "bce_with_logits({y}, {t}, weight={w}, pos_weight={p}, reduction=\"%s\")" % how,
             lambda y, t, w, p,
             how=how: F.binary_cross_entropy_with_logits(y, t, weight=w, pos_weight=p, reduction=how), {"y": scores},
             {"t": t, "w": ("N, K=9", torch.rand(N, 9)), "p": ("K=9", torch.rand(9) * 3)})
small = ("N, K=9", torch.linspace(3, 80, 9).repeat(N, 1))  # where every loss is tiny: whole digits
case("bce, tiny losses", "log(bce_with_logits({y}, 1, reduction=\"none\"))[N=0, K=8]",
     # Debian's own bce takes the log of 1 + exp(-y), and loses them
     lambda y: torch.log(-F.logsigmoid(y))[0, 8], {"y": small})
case("bce, tiny losses, sum", "sum({g} * bce_with_logits({y}, 1, reduction=\"none\"))",
     lambda y, g: (g * -F.logsigmoid(y)).sum(), {"y": small},
     {"g": ("N, K=9", torch.exp(small[1]))})

# distances, with the kinks among the values: 0, and the edge on both sides
off = torch.tensor([0.0, -0.0, 0.5, -0.5, 0.3, -2.0, 1.0, -1.0, 1e3])
y, t = ("N, K=9", torch.randint(-8, 8, (N, 9)) / 4), None
t = ("N, K=9", y[1] - off)
for how in ("mean", "sum"):
    for name, f in (("mse_loss", F.mse_loss), ("l1_loss", F.l1_loss)):
        case(f"{name}, {how}", "%s({y}, {t}, reduction=\"%s\")" % (name, how), lambda y, t, f=f,
             how=how: f(y, t, reduction=how), {"y": y}, {"t": t})
    for k in (0.5, 1, 3):
        case(f"huber, {k}, {how}", "huber_loss({y}, {t}, delta=%s, reduction=\"%s\")" % (k, how),
             lambda y, t, k=k, how=how: F.huber_loss(y, t, delta=k, reduction=how), {"y": y}, {"t": t})
    for k in (0, 0.5, 1):
        case(f"smooth l1, {k}, {how}", "smooth_l1_loss({y}, {t}, beta=%s, reduction=\"%s\")" % (k, how),
             lambda y, t, k=k,
             how=how: F.smooth_l1_loss(y, t, beta=k, reduction=how) if k else F.l1_loss(y, t, reduction=how),
             {"y": y}, {"t": t})  # at beta 0 Debian's torch has the slope -1 at 0, later ones 0
field, truth = P("N, C=2, H=3, W=5", N, 2, 3, 5), P("N, C=2, H=3, W=5", N, 2, 3, 5)
truth[1][1] = field[1][1]  # a perfect sample: the norm's kink
case("relative l2", "relative_l2_loss({y}, {t})",
     lambda y, t: ((y - t).flatten(1).norm(dim=1) / t.flatten(1).norm(dim=1)).mean(), {"y": field}, {"t": truth})
case("relative l2 of each channel", "relative_l2_loss({y}, {t}, over=[H, W])",
     lambda y, t: ((y - t).flatten(2).norm(dim=2) / t.flatten(2).norm(dim=2)).mean(), {"y": field}, {"t": truth})

# constants, casts, new axes
case("a list", "sum(([0.1, 0.2, 0.7, 0.7] as [K]) * {y})",
     lambda y: (torch.tensor([0.1, 0.2, 0.7, 0.7]).double() * y).sum(),
     {"y": P("N, K=4", N, 4)})
case("a list of lists", "sum(([[0, 1, 0], [1, -4, 1]] as [H=2, W]) * {y})",
     lambda y: (torch.tensor([[0.0, 1, 0], [1, -4, 1]]) * y).sum(), {"y": P("N, H=2, W=3", N, 2, 3)})
case("a long list", "sum(([k*k % 17 / 3 for k in range(100)] as [K]) * {y})",
     lambda y: (torch.tensor([k * k % 17 / 3 for k in range(100)]).double() * y).sum(), {"y": P("N, K=100", N, 100)})
case("a list of 5,000 numbers", "sum(([sin(0.37 * k) for k in range(5000)] as [K]) * {y})",
     lambda y: ((0.37 * torch.arange(5000).double()).sin() * y).sum(), {"y": P("N, K=5000", N, 5000)})
case("the longest list, of whole numbers", "sum(([k * k % 1009 for k in range(65536)] as [K]) * {y})",
     lambda y: (torch.arange(65536)**2 % 1009 * y).sum(), {"y": P("K=65536", 65536)})
case("lists of large numbers and truth values",
     "sum(where([true, false, true] as [K], ([4000000000, -1, 2] as [K]) / 1e9, 3) * {y})",
     lambda y: (torch.tensor([4, 3, 2e-9]).double() * y).sum(), {"y": P("N, K=3", N, 3)})
case("a list by number", "sum(gather([0.5, -2, 8, 3] as [K], {t}, over=K) * {y})",
     lambda y, t: (torch.tensor([0.5, -2, 8, 3]).double()[t.long()] * y).sum(), {"y": P("N", N)},
     {"t": whole("N", 4, N)})
case("one list twice, and as another",
     "sum(([3, 1, 2] as [K]) * {y}) + sum(([3, 1, 2] as [K]) * {z}) - sum(([3, 1, 2] as [C]) * {w}) + sum(([3., 1, 2] "
     "as [K]) * {y})",
     lambda y, z, w: (torch.tensor([3, 1, 2]) * (2 * y + z - w)).sum(),
     {"y": P("N, K=3", N, 3), "z": P("N, K=3", N, 3), "w": P("N, C=3", N, 3)})
case("one_hot", "sum(one_hot({t}, C=5) * {y})", lambda y, t: (F.one_hot(t.long(), 5) * y).sum(),
     {"y": P("N, C=5", N, 5)}, {"t": whole("N", 5, N)})
case("one_hot of pixels", "sum(one_hot({t}, C=3) * {y})", lambda y,
     t: (F.one_hot(t.long(), 3).permute(0, 3, 1, 2) * y).sum(),
     {"y": image}, {"t": labels})
case("casts", "sum({y} * ({x} as i32)) + sum({y} * ({x} > 0) as f32) + sum({y} * ({x} as bool))",
     lambda y, x: (y * x.to(torch.int32)).sum() + (y * (x > 0)).sum() + (y * x.bool()).sum(), {"y": P("N, K=5", N, 5)},
     {"x": ("N, K=5", torch.tensor([2.7, -2.7, 0.0, 0.3, -0.3]).repeat(N, 1))})
case("casts of what does not fit",
     "sum({y} * (({x} as i32) < -2147483647)) + sum({y} * (({x} as i64) == ({z} as i64)))",
     lambda y, x, z: 2 * y[:, 1:].sum(), {"y": P("N, K=5", N, 5)},
     {"x": ("N, K=5", torch.tensor([2e9, 1e30, inf, -inf, float("nan")]).repeat(N, 1)),
      "z": ("N, K=5", torch.full((N, 5), -(2.0**63)))})
case("lists of tensors",
     "sum({g} * (sum([2, {a}, {b}]) + mean([{a}, {b}, {g}]) + prod([{a}, 3, {b}]) + max([{a}, {b}]) + min([{a}, 0.1, "
     "{b}])))",
     lambda a, b,
     g: (g * (2 + a + b + (a + b + g) / 3 + 3 * a * b + torch.maximum(a, b) +
              torch.minimum(a, b).clamp(max=0.1))).sum(),
     {"a": P("N, K=5", N, 5), "b": P("N, K=5", N, 5)}, {"g": P("N, K=5", N, 5)})
case("a number as a tensor", "sum({y}) * (0.3 as f32) + sum(expand(2, over=[N]) * {y})",
     lambda y: y.sum() * 0.3 + 2 * y.sum(), {"y": P("N, K=5", N, 5)})
case("new axes of size 1",
     "sum(unsqueeze({y}, over=T, at=1) * {z}) + sum(({y} |> rearrange(\"n k -> n 1 k 1\") as [N, T, K, S]) * {z})",
     lambda y, z: 2 * (y[:, None] * z).sum(), {"y": P("N, K=5", N, 5)}, {"z": P("N, T=1, K=5", N, 1, 5)})
case("straight through", "sum({g} * ({y} + stop_gradient(floor({y} + 0.5) - {y})))",
     lambda y, g: (g * (y + (torch.floor(y + 0.5) - y).detach())).sum(), {"y": P("N, K=5", N, 5, scale=3)},
     {"g": P("N, K=5", N, 5)})
case("stop_gradient of a part", "mean(({y} - stop_gradient(mean({y}, over=K)))**2)",
     lambda y: ((y - y.mean(1, keepdim=True).detach()) ** 2).mean(),
     {"y": P("N, K=5", N, 5)})

# kinks: values where PyTorch's rule decides (docs/reference/functions.md has the table)
special = ("N, K=7", torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0]).repeat(N, 1))
positive = ("N, K=4", torch.tensor([0.0, 1.0, 0.25, 4.0]).repeat(N, 1))
for name, f in (("abs", torch.abs), ("relu", torch.relu), ("sign", torch.sign), ("floor", torch.floor),
                ("gelu", F.gelu), ("silu", F.silu),
                ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("square", torch.square)):
    case(name, "sum({g} * %s({y}))" % name, lambda y, g, f=f: (g * f(y)).sum(), {"y": special},
         {"g": P("N, K=7", N, 7)})
for slope in (0.01, 0, 1, -0.5):
    case(f"leaky_relu {slope}", "sum({g} * leaky_relu({y}, %s))" % slope, lambda y, g,
         s=slope: (g * F.leaky_relu(y, s)).sum(), {"y": special},
         {"g": P("N, K=7", N, 7)})
case("sqrt", "sum(sqrt({y}))", lambda y: torch.sqrt(y).sum(), {"y": positive})
case("to the power 0.5", "sum({y}**0.5)", lambda y: (y**0.5).sum(), {"y": positive})
for k in (0, 1, 2, 3, 1.5):
    base = positive if k % 1 else special
    case(f"to the power {k}", "sum({g} * {y}**%s)" % k, lambda y, g, k=k: (g * y**k).sum(), {"y": base},
         {"g": P(base[0], *base[1].shape)})
grid = torch.cartesian_prod(torch.tensor([0.0, 0.5, 2.0]), torch.tensor([0.0, 1.0, 2.0, 0.5])).T.contiguous()
case("pow of tensors", "sum({a}**{b})", lambda a, b: (a**b).sum(),
     {"a": ("N, K=12", grid[0].repeat(N, 1)), "b": ("N, K=12", grid[1].repeat(N, 1))})
tie = ("N, K=4",
       torch.tensor([[1.0, 2.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0], [0.0, -0.0, 0.0, -1.0], [5.0, 1.0, 5.0, 5.0]]))
for name, two, over in (("max", torch.maximum, torch.amax), ("min", torch.minimum, torch.amin)):
    case(f"{name} of two", "sum({g} * %s({a}, {b}))" % name, lambda a, b, g, f=two: (g * f(a, b)).sum(),
         {"a": tie, "b": ("N, K=4", tie[1].roll(1, 1))}, {"g": P("N, K=4", N, 4)})
    case(f"{name} and a number", "sum({g} * %s({a}, 0))" % name, lambda a, g,
         f=two: (g * f(a, torch.zeros_like(a))).sum(), {"a": special},
         {"g": P("N, K=7", N, 7)})
    case(f"{name} over an axis", "sum({g} * %s({a}, over=K))" % name, lambda a, g, f=over: (g * f(a, 1)).sum(),
         {"a": tie}, {"g": P("N", N)})
    case(f"{name} of all", "%s({a})" % name, lambda a, f=over: f(a), {"a": tie})
zero = ("N, K=4", torch.tensor([[0.0] * 4, [3.0, 0.0, 4.0, 0.0], [-0.0] * 4, [1.0, 2.0, 3.0, 4.0]]))
case("norm", "sum({g} * norm({y}, over=K))", lambda y, g: (g * y.norm(dim=1)).sum(), {"y": zero}, {"g": P("N", N)})
case("norm of all", "norm({y})", lambda y: y.norm(), {"y": ("N, K=4", torch.zeros(N, 4))})
same = ("N, K=4", torch.tensor([[2.0] * 4, [3.0, 0.0, 4.0, 0.0], [0.0] * 4, [0.1] * 4]))
case("std", "sum({g} * std({y}, over=K))", lambda y, g: (g * y.std(1, unbiased=False)).sum(), {"y": same},
     {"g": P("N", N)})
case("var", "sum({g} * var({y}, over=K))", lambda y, g: (g * y.var(1, unbiased=False)).sum(), {"y": same},
     {"g": P("N", N)})
case("where", "sum({g} * where({y} > 0, {y}**2, 3 * {y}))", lambda y, g: (g * torch.where(y > 0, y**2, 3 * y)).sum(),
     {"y": special},
     {"g": P("N, K=7", N, 7)})
case("max_pool", "sum({g} * max_pool({y}, 2))", lambda y, g: (g * F.max_pool1d(y, 2)).sum(),
     {"y": ("N, C=1, T=4", tie[1][:, None])},
     {"g": P("N, C=1, T=2", N, 1, 2)})
for mode in ("nearest", "linear"):
    case(f"upsample by a fraction, {mode}", f'sum({{g}} * upsample({{y}}, scale_factor=1.5, mode="{mode}"))',
         lambda y, g, m=mode: (g * F.interpolate(y, scale_factor=1.5, mode=m)).sum(), {"y": P("N, C=2, T=6", N, 2, 6)},
         {"g": P("N, C=2, T=9", N, 2, 9)})
few = ("N, K=9, C=3", torch.randint(-3, 4, (N, 9, 3)) / 2.0)
strange = few[1].clone()
strange[0, 2], strange[1, 7], strange[2, 0, 1], strange[3, 5] = nan, inf, -inf, nan
for name, v in (("numbers", P("N, K=9, C=3", N, 9, 3)), ("ties", few), ("what is no number", ("N, K=9, C=3", strange))):
    for k in (1, 4, 9):  # a stable sort says which of equal ones is first, as topk does not
        def largest(x, k=k):
            return torch.sort(x, dim=1, descending=True, stable=True).indices[:, :k]
        case(f"top_k, {k} of {name}", "sum({g} * top_k({x}, %d, over=K))" % k, lambda g, x, f=largest: (g * f(x)).sum(),
             {"g": P(f"N, K={k}, C=3", N, k, 3)}, {"x": v})
    if name != "what is no number":
        case(f"values of top_k, {name}", "sum({g} * gather({x}, top_k({x}, 4, over=K), over=K))",
             lambda g, x: (g * x.gather(1, torch.sort(x, dim=1, descending=True, stable=True).indices[:, :4])).sum(),
             {"x": v},
             {"g": P("N, K=4, C=3", N, 4, 3)})
case("softmax of equals", "sum({g} * softmax({y}, over=K))", lambda y, g: (g * torch.softmax(y, 1)).sum(), {"y": tie},
     {"g": P("N, K=4", N, 4)})

text, weights, batch = ["model Cases():"], {}, {}
for i, (name, dl, expect, params, inputs) in enumerate(cases):
    names = {k: f"c{i}_{k}" for k in {**params, **inputs}}
    for k, (axes, v) in inputs.items():
        text.append(f"    input {names[k]}: {'i32' if v.dtype == torch.int32 else 'f32'}[{axes}]")
        batch[names[k]] = v
if not batch:
    sys.exit("no inputs")
for i, (name, dl, expect, params, inputs) in enumerate(cases):
    names = {k: f"c{i}_{k}" for k in {**params, **inputs}}
    for k, (axes, v) in params.items():
        text.append(f"    param {names[k]}: [{axes}] = 0")
        weights[names[k]] = v
    text += [f"    l{i} = {dl.format(**names)}", f'    metric "case {i}" = l{i}']
text += ["    output l0", "    loss = " + " + ".join(f"l{i}" for i in range(len(cases))), ""]
lines, grads, _ = replay("\n".join(text), weights, [batch])
for i, (name, dl, expect, params, inputs) in enumerate(cases):
    p = {k: v.double().requires_grad_() for k, (_, v) in params.items()}
    q = {k: v.double() if v.is_floating_point() else v for k, (_, v) in inputs.items()}
    want = expect(**p, **q)
    slopes = dict(zip(p, torch.autograd.grad(want, list(p.values()), allow_unused=True)))
    # A value is a sum of at most some hundred terms of a few float32 roundings each: off by some units of 2^-24 of what
    # relative changes of the parameters do to it (its terms may cancel). Kinks are exact.
    size = abs(want.item()) + sum((g * p[k]).nan_to_num(0, 0, 0).abs().sum().item() for k,
                                  g in slopes.items() if g is not None)
    got = lines[0][f"case {i}"]
    good = abs(got - want.item()) <= 2e-6 * size if torch.isfinite(want) else got == want.item()
    wrong = "" if good else f"value {got!r}, PyTorch has {want.item()!r}"
    for k in p:
        g = torch.zeros_like(p[k]) if slopes[k] is None else slopes[k]
        name_of = f"c{i}_{k}"
        mine = grads[name_of].double() if name_of in grads else torch.zeros_like(g)
        same = torch.isfinite(g) == torch.isfinite(mine)
        strange = ~torch.isfinite(g)
        same &= torch.where(strange, (g == mine) | (g.isnan() & mine.isnan()),
                            (g - mine).abs() <= 4e-6 * g.abs() + 1e-6 * g[~strange].abs().max() if (~strange).any()
                            else True)
        if not same.all():
            at = (~same).nonzero()[0].tolist()
            wrong += f" gradient of {k} at {at}: {mine[tuple(at)].item()!r}, PyTorch has {g[tuple(at)].item()!r}"
    check(not wrong, f"{name} {wrong}")

# A class without a score: the loss is infinite, and training stops
text = ("model A():\n    input x: f32[N, F=3]\n    target t: i32[N]\n    y = x |> linear(5) as [N, C]\n    output y\n"
        "    loss = cross_entropy(y, t)\n")
start = {"y.weight": torch.randn(5, 3), "y.bias": torch.randn(5)}
for t in (5, -1):
    classes = torch.tensor([0, 4, t, 2], dtype=torch.int32)
    out = replay(text, start, [{"x": torch.randn(N, 3), "t": classes}], status=7)
    check("not finite" in out, f"class {t} of 5 stops the run")


# Numbers that are no class, beside scores of every sign and such that are none: losses one by one, what counts as a
# hit, shares.
inputs = torch.tensor([[3.0, 1, 2, -1, 0], [-5, -1, -2, -3, -4], [1, 1, 0, 0, 0], [nan, 1, 2, 3, 4],
                       [5, -1, inf, 2, nan], [-inf, -1, -2, -3, -4]])
classes = torch.tensor([0, 1, 2, 3, 4, 5, -1, -2147483648, 2147483647, 255], dtype=torch.int32)
inputs, classes = inputs.repeat_interleave(len(classes), 0), classes.repeat(len(inputs))
known, gain = (classes >= 0) & (classes < 5), torch.tensor([0.5, 2, 0, 1, 3])
finite = inputs.isfinite().all(1)
losses = {"": {}, ", weight=w": {"weight": gain}, ", label_smoothing=0.25": {"label_smoothing": 0.25},
          ", weight=w, label_smoothing=0.25": {"weight": gain, "label_smoothing": 0.25},
          ", ignore_index=255": {"ignore_index": 255},
          ", weight=w, ignore_index=255": {"weight": gain, "ignore_index": 255}}
text = f"""
model Strangers():
    input  x: f32[N, C=5]
    input  t: i32[N]
    input  each: f32[N]
    param  p: [C=5] = 0
    y = x + p
    w = [0.5, 2, 0, 1, 3] as [C]
    output y
    loss = mean(p**2)
    at(v) = sum(where(each > 0, v, 0))
"""
counted = [f"loss{i}" for i in range(len(losses))] + [f"top{k}" for k in (1, 2, 3, 5)] + ["hot"]
for i, options in enumerate(losses):
    text += f"    metric loss{i} = at(cross_entropy(y, t{options}, reduction=\"none\"))\n"
    text += f"    metric infinite{i} = at(where(cross_entropy(y, t{options}, reduction=\"none\") > 1e30, 1.0, 0.0))\n"
for k in (1, 2, 3, 5):
    text += f"    metric top{k} = at(where(in_top_k(y, t, {k}), 1.0, 0.0))\n"
text += "    metric hot = at(sum(one_hot(t, C=5) * ([1, 10, 100, 1000, 10000] as [C]), over=C))\n"
rows = len(inputs)
batches = [{"x": inputs, "t": classes, "each": (torch.arange(rows) == i).float()} for i in range(rows)]
lines, _, _ = replay(text, {"p": torch.zeros(5)}, batches, f"--local_batch_size={rows}", "--start_lr=0")
for i in range(rows):
    x, t, got = inputs[i : i + 1], classes[i : i + 1].long(), lines[i]
    what = f"class {t.item()} beside {x[0].tolist()}"
    for j, (options, of) in enumerate(losses.items()):
        ignored = of.get("ignore_index") == t.item()
        if not finite[i]:
            continue
        if known[i] or ignored:
            want = F.cross_entropy(x.double(), t, reduction="none",
                                   **{k: v.double() if k == "weight" else v for k, v in of.items()}).item()
            check(abs(got[f"loss{j}"] - want) < 1e-5 * (1 + abs(want)) and not got[f"infinite{j}"],
                  f"loss{options} of {what}: {got[f'loss{j}']}, {want}")
        else:
            check(got[f"loss{j}"] is None and got[f"infinite{j}"] == 1, f"loss{options} of {what}: infinite")
    for k in (1, 2, 3, 5):  # not below the k-th of topk, for which NaN is largest; its numbers of equal scores are any
        own = x[0, t[0]] if known[i] else torch.tensor(-inf)
        want = known[i].item() and (own.isnan() | (own >= x.topk(k, 1).values[0, -1])).item()
        check(got[f"top{k}"] == want, f"in_top_k {k} of {what}: {got[f'top{k}']}")
        if known[i] and len(set(x[0].tolist())) == 5:
            check(want == (x.topk(k, 1).indices == t).any().item(), f"as topk has it: {k} of {what}")
    check(got["hot"] == (10 ** t.item() if known[i] else 0), f"one_hot of {what}: {got['hot']}")


# Shared layers: whole models for five steps of Adam.
class Siamese(torch.nn.Module):
    """One encoder, with batch norm, over three inputs of two lengths; a list of layers; a parameter of the module's
    own."""
    text = """
module Enc(c)(x):
    param gain: [C=2] ~ normal(1, 0.1)
    return x * gain |> conv(c, 3, pad=1, bias=false) @conv |> batch_norm @bn |> relu |> conv(c, 1) @out
module Twice(f)(x): return x |> f |> f
model Siamese():
    input  a: f32[N, C=2, T=8]
    input  b: f32[N, C=2, S=11]
    input  c: f32[N, C=2, T]
    enc = Enc(6) @enc
    mix = linear(6)
    last = [conv(6, 1) @last.{i} for i in range(2)]
    ea = a |> enc
    eb = b |> enc
    ec = enc(c)
    u = mean(ea, over=T) |> Twice(mix)
    v = mean(eb, over=S) |> mix
    w = mean(ec |> last[0] |> last[1] |> last[0], over=T)
    output u
    loss = mean((u - v)**2) + mean((v - w)**2) + 0.01 * sum_squares(conv.weight)
"""
    shapes = {"a": (N, 2, 8), "b": (N, 2, 11), "c": (N, 2, 8)}

    def __init__(self):
        super().__init__()
        self.enc = torch.nn.Module()
        self.enc.gain = torch.nn.Parameter(torch.randn(2))
        self.enc.conv, self.enc.bn, self.enc.out = torch.nn.Conv1d(
            2, 6, 3, padding=1, bias=False), torch.nn.BatchNorm1d(6), torch.nn.Conv1d(6, 6, 1)
        self.mix = torch.nn.Linear(6, 6)
        self.last = torch.nn.ModuleList([torch.nn.Conv1d(6, 6, 1) for _ in range(2)])

    def encode(self, x):
        return self.enc.out(torch.relu(self.enc.bn(self.enc.conv(x * self.enc.gain[:, None]))))

    def forward(self, a, b, c):
        ea, eb, ec = self.encode(a), self.encode(b), self.encode(c)
        u, v = self.mix(self.mix(ea.mean(2))), self.mix(eb.mean(2))
        w = self.last[0](self.last[1](self.last[0](ec))).mean(2)
        convolutions = [self.enc.conv, self.enc.out, *self.last]
        return ((u - v) ** 2).mean() + ((v - w) ** 2).mean() + 0.01 * sum((m.weight**2).sum() for m in convolutions)


class Recurrent(torch.nn.Module):
    """A cell applied step by step (a recurrent net), whose two layers are shared by all steps."""
    text = """
module Cell(width)(x: [N, I], h: [N, H]):
    z = cat(x as [N, H], h, over=H)
    g = z |> linear(width) @gate |> sigmoid
    return g * h + (1 - g) * (z |> linear(width) @new |> tanh)
model Recurrent():
    input  x: f32[N, T=6, I=3]
    target t: f32[N, O=2]
    cell = Cell(5) @cell
    h = expand(0, over=N, H=5)
    for i in range(6): h = cell(x[T=i], h)
    y = h |> linear(2) as [N, O]
    output y
    loss = smooth_l1_loss(y, t, beta=0.5)
"""
    shapes = {"x": (N, 6, 3), "t": (N, 2)}

    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Module()
        self.cell.gate, self.cell.new, self.y = torch.nn.Linear(8, 5), torch.nn.Linear(8, 5), torch.nn.Linear(5, 2)

    def forward(self, x, t):
        h = torch.zeros(N, 5, dtype=x.dtype)
        for i in range(6):
            z = torch.cat([x[:, i], h], 1)
            g = torch.sigmoid(self.cell.gate(z))
            h = g * h + (1 - g) * torch.tanh(self.cell.new(z))
        return F.smooth_l1_loss(self.y(h), t, beta=0.5)


class Forecast(torch.nn.Module):
    """A GRU cell unrolled over time, beside PyTorch's own."""
    text = """
module GRU(w)(x: [N, F], h: [N, H]):
    gx = x |> linear(3*w) @ih
    gh = h |> linear(3*w) @hh as [N, F]
    r = sigmoid(gx[F=0:w] + gh[F=0:w])
    z = sigmoid(gx[F=w:2*w] + gh[F=w:2*w])
    n = tanh(gx[F=2*w:3*w] + r * gh[F=2*w:3*w])
    return ((1 - z) * n + z * (h as [N, F])) as [N, H]
model Forecast(w=8):
    input  x: f32[N, T=5, F=3]
    target t: f32[N, F=3]
    gru = GRU(w)
    h = expand(0, over=N, H=w)
    for i in range(5): h = gru(x[T=i], h)
    y = h |> linear(3) @head as [N, F]
    output y
    loss = huber_loss(y, t, delta=0.7)
"""
    shapes = {"x": (N, 5, 3), "t": (N, 3)}
    names = {"gru.weight_ih": "gru.ih.weight", "gru.weight_hh": "gru.hh.weight", "gru.bias_ih": "gru.ih.bias",
             "gru.bias_hh": "gru.hh.bias"}

    def __init__(self):
        super().__init__()
        self.gru, self.head = torch.nn.GRUCell(3, 8), torch.nn.Linear(8, 3)

    def forward(self, x, t):
        h = torch.zeros(N, 8, dtype=x.dtype)
        for i in range(5):
            h = self.gru(x[:, i], h)
        return F.huber_loss(self.head(h), t, delta=0.7)


class Tied(torch.nn.Module):
    """The first layer's weight is the last one's, too; the weights of a module are decayed."""
    text = """
module Body(w)(x): return x |> linear(w) @a |> gelu |> linear(w) @b
model Tied():
    input  x: f32[N, V=7]
    target t: i32[N]
    embed = linear(6, bias=false)
    body = Body(6)
    h = x |> embed as [N, E] |> body
    y = sum(h * (embed.weight as [E, V]), over=E)
    output y
    loss = cross_entropy(y, t) + 0.01 * sum_squares(body.weight)
"""
    shapes = {"x": (N, 7), "t": (N,)}
    labels = staticmethod(lambda shape: torch.randint(0, 7, shape, dtype=torch.int32))

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.embed, self.body = nn.Linear(7, 6, bias=False), nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 6)})

    def forward(self, x, t):
        h = self.body["b"](F.gelu(self.body["a"](self.embed(x))))
        return F.cross_entropy(F.linear(h, self.embed.weight.t()),
                               t.long()) + 0.01 * sum((v.weight**2).sum() for v in self.body.values())


class SimSiam(torch.nn.Module):
    """Two views, an encoder and a predictor for both, no gradient into the targets (Chen and He 2020)."""
    text = """
module Encoder(w)(x):
    y = x |> conv(w, 3, stride=2, pad=1, bias=false) @0 |> batch_norm @1 |> relu \
        |> conv(2*w, 3, stride=2, pad=1, bias=false) @3 |> batch_norm @4
    return mean(relu(y), over=[H, W]) |> linear(4*w) @fc
module Predictor(hidden)(z): return z |> linear(hidden) @0 |> relu |> linear(z.C) @2
cosine(p, z) = mean(sum(p * z, over=C) / (norm(p, over=C) * norm(z, over=C)))
model SimSiam(w=8):
    input a: f32[N, C=3, H=16, W=16]
    input b: f32[N, C=3, H=16, W=16]
    encoder = Encoder(w)
    predictor = Predictor(16)
    z = [a |> encoder, b |> encoder]
    p = [v |> predictor for v in z]
    output z[0]
    loss = -0.5 * (cosine(p[0], stop_gradient(z[1])) + cosine(p[1], stop_gradient(z[0])))
    metric collapse = mean(std(z[0], over=N))
"""
    shapes = {"a": (N, 3, 16, 16), "b": (N, 3, 16, 16)}

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.encoder = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                     nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.encoder.add_module("fc", nn.Linear(16, 32))
        self.predictor = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32))

    def encode(self, x):
        for layer in list(self.encoder)[:6]:
            x = layer(x)
        return self.encoder.fc(x.mean((2, 3)))

    def forward(self, a, b):
        za, zb = self.encode(a), self.encode(b)
        pa, pb = self.predictor(za), self.predictor(zb)
        return -0.5 * (F.cosine_similarity(pa, zb.detach()).mean() + F.cosine_similarity(pb, za.detach()).mean())


class Segment(torch.nn.Module):
    """Weighted cross-entropy with unlabelled pixels, and a soft Dice loss by one_hot."""
    text = """
module Double(c)(x): return x |> conv(c, 3, pad=1) @0 |> group_norm(2) @1 |> relu
model Segment(k=4):
    input  x: f32[N, C=1, H=16, W=16]
    target t: i32[N, H=16, W=16]
    y = x |> Double(8) @a |> Double(8) @b |> conv(k, 1) @out
    p = softmax(y, over=C)
    hot = one_hot(t, C=k)
    both = sum(p * hot, over=[N, H, W])
    dice = 1 - mean((2 * both + 1) / (sum(p, over=[N, H, W]) + sum(hot, over=[N, H, W]) + 1))
    output y
    loss = cross_entropy(y, t, weight=([0.2, 1, 1, 2] as [C]), ignore_index=255) + dice
"""
    shapes = {"x": (N, 1, 16, 16), "t": (N, 16, 16)}

    @staticmethod
    def labels(shape):
        t = torch.randint(0, 4, shape, dtype=torch.int32)
        return torch.where(torch.rand(shape) < 0.2, torch.tensor(255, dtype=torch.int32), t)

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.a = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU())
        self.b = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU())
        self.out = nn.Conv2d(8, 4, 1)

    def forward(self, x, t):
        y, t = self.out(self.b(self.a(x))), t.long()
        hot = torch.stack([(t == i).to(x.dtype) for i in range(4)], 1)  # of no class where unlabelled
        p = torch.softmax(y, 1)
        dice = 1 - ((2 * (p * hot).sum((0, 2, 3)) + 1) / (p.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + 1)).mean()
        return F.cross_entropy(y, t, weight=torch.tensor([0.2, 1, 1, 2]).to(x.dtype), ignore_index=255) + dice


class Penalised(torch.nn.Module):
    """Sums of squares by kind of parameter: weights and biases of every kind of layer, each kind by a factor of its
    own; what is made behind the sum is not in it."""
    text = """
model Penalised():
    input  n: i32[N]
    input  x: f32[N, C=4, T=6]
    target t: f32[N, C=3]
    param gain: [C=3] ~ normal(1, 0.1)
    h = x |> conv(5, 3) @c1 |> batch_norm @bn |> conv(5, 1) @c2 |> conv_transpose(2, 3) @up
    early = sum_squares(conv.weight)
    h = h |> group_norm(1) @gn |> conv(2, 1) @c3 |> layer_norm @ln |> instance_norm(affine=true) @inn
    e = n |> embedding(7, 3) @emb as [N, C]
    y = (mean(h, over=T) |> linear(3) @fc) * gain + e
    output y
    loss = mean((y - t)**2) + 0.11 * early + 0.07 * sum_squares(conv.weight, linear.weight, gain)
    loss += 0.13 * sum_squares(conv_transpose.weight) + 0.17 * sum_squares(conv.bias, linear.bias, conv_transpose.bias)
    loss += 0.19 * sum_squares(batch_norm.weight, layer_norm.weight) + 0.23 * sum_squares(group_norm.weight, \
        instance_norm.weight)
    loss += 0.29 * sum_squares(batch_norm.bias, layer_norm.bias, group_norm.bias, instance_norm.bias) \
        + 0.31 * sum_squares(embedding.weight)
    metric size = sqrt(sum_squares([conv.weight, [gain]], embedding.weight))
"""
    shapes = {"n": (N,), "x": (N, 4, 6), "t": (N, 3)}
    labelled = "n"
    labels = staticmethod(lambda shape: torch.randint(0, 7, shape, dtype=torch.int32))

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.c1, self.bn, self.c2, self.up = nn.Conv1d(4, 5,
                                                       3), nn.BatchNorm1d(5), nn.Conv1d(5, 5,
                                                                                        1), nn.ConvTranspose1d(5, 2, 3)
        self.gn, self.c3, self.ln, self.inn = nn.GroupNorm(1, 2), nn.Conv1d(2, 2,
                                                                            1), nn.LayerNorm(6), nn.InstanceNorm1d(
                                                                                2, affine=True)
        self.emb, self.fc, self.gain = nn.Embedding(7, 3), nn.Linear(2, 3), nn.Parameter(torch.randn(3))
        for layer in self.bn, self.gn, self.ln, self.inn:  # not at 1 and 0
            nn.init.normal_(layer.weight), nn.init.normal_(layer.bias)

    def squares(self, *names):
        return sum((p**2).sum() for k, p in self.named_parameters() if k in names)

    def forward(self, n, x, t):
        h = self.inn(self.ln(self.c3(self.gn(self.up(self.c2(self.bn(self.c1(x))))))))
        y = self.fc(h.mean(2)) * self.gain + self.emb(n.long())
        kinds = {0.11: "c1.weight c2.weight", 0.07: "c1.weight c2.weight c3.weight fc.weight gain", 0.13: "up.weight",
                 0.17: "c1.bias c2.bias c3.bias fc.bias up.bias", 0.19: "bn.weight ln.weight",
                 0.23: "gn.weight inn.weight",
                 0.29: "bn.bias ln.bias gn.bias inn.bias", 0.31: "emb.weight"}
        self.metrics = {"size": self.squares("c1.weight", "c2.weight", "c3.weight", "gain", "emb.weight").sqrt().item()}
        return ((y - t) ** 2).mean() + sum(factor * self.squares(*names.split()) for factor, names in kinds.items())


class Doubles(torch.nn.Module):
    """Layers that read f64: their parameters, and all that is made of them, are so, too."""
    text = """
model Doubles():
    input  x: f64[N, C=4, D=3, H=6, W=5]
    input  s: f64[N, T=5, E=12]
    target t: f64[N, O=3]
    h = x |> conv(6, [1, 2, 3], stride=[1, 2, 1], pad=[0, 1, 1], groups=2) @c |> batch_norm @bn |> relu
    h = mean(h, over=D) |> conv_transpose(4, [2, 3], stride=[2, 1], groups=2, dilation=[1, 2]) @up |> group_norm(2) @gn
    a = s |> layer_norm @ln
    a = attention(a |> linear(12) @q, a |> linear(12) @k, a |> linear(12) @v, 3, causal=true)
    y = (cat(mean(h, over=[H, W]) as [N, F], mean(a, over=T) as [N, F], over=F) |> linear(3) @fc) as [N, O]
    output y
    loss = mean((y - t)**2)
"""
    dtype = torch.float64
    shapes = {"x": (N, 4, 3, 6, 5), "s": (N, 5, 12), "t": (N, 3)}

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.c, self.bn, self.gn = nn.Conv3d(4, 6, (1, 2, 3), (1, 2, 1), (0, 1, 1),
                                             groups=2), nn.BatchNorm3d(6), nn.GroupNorm(2, 4)
        self.up = nn.ConvTranspose2d(6, 4, (2, 3), (2, 1), groups=2, dilation=(1, 2))
        self.ln, self.q, self.k, self.v, self.fc = nn.LayerNorm(12), nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(
            12, 12), nn.Linear(16, 3)

    def forward(self, x, s, t):
        h = self.gn(self.up(torch.relu(self.bn(self.c(x))).mean(2)))
        s = self.ln(s)
        q, k, v = (f(s).reshape(N, 5, 3, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = (q @ k.transpose(2, 3) / 2).masked_fill(torch.ones(5, 5).tril() == 0, -inf)
        a = (torch.softmax(scores, 3) @ v).transpose(1, 2).reshape(N, 5, 12)
        return ((self.fc(torch.cat([h.mean((2, 3)), a.mean(1)], 1)) - t) ** 2).mean()


def ours(net, name):
    return getattr(net, "names", {}).get(name, name)


for net in Siamese, Recurrent, Forecast, Tied, SimSiam, Segment, Penalised, Doubles:
    dtype = getattr(net, "dtype", torch.float32)
    model, rate = net().to(dtype), 1e-3
    start = {ours(net, k): v.detach().clone() for k,
             v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    batches = [{k: net.labels(shape) if k == getattr(net, "labelled", "t")
                and hasattr(net, "labels") else torch.randn(shape, dtype=dtype)
                for k, shape in net.shapes.items()} for _ in range(5)]
    lines, grads, end = replay(net.text, start, batches, f"--start_lr={rate}", f"--end_lr={rate}")
    truth = copy.deepcopy(model).double()
    truth(**{k: v.double() if v.is_floating_point() else v for k, v in batches[0].items()}).backward()
    for k, v in getattr(truth, "metrics", {}).items():  # of some hundred numbers in float32
        check(abs(lines[0][k] / v - 1) < 1e-6, f"{net.__name__}: metric {k}, {lines[0][k]} and {v}")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for i, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = model(**batch)
        loss.backward()
        if i == 0:
            check(set(grads) == {ours(net, k) for k, _ in model.named_parameters()},
                  f"{net.__name__}: gradients of {sorted(grads)}")
            # some hundred roundings; where terms cancel PyTorch's own float32 is as far off
            for k, p in truth.named_parameters():
                mine = grads[ours(net, k)]
                far, theirs = (relative(g.double(), p.grad) for g in (mine, model.get_parameter(k).grad))
                # some hundred roundings of 2^-53; where nothing should remain, of terms about 1
                if dtype == torch.float64:
                    far = min(far, (mine - p.grad).norm().item())
                check(mine.dtype == dtype and far < max(1e-5 if dtype == torch.float32 else 1e-12, 4 * theirs),
                      f"{net.__name__}: gradient of {k}, {far:.1e}, PyTorch's {theirs:.1e}")
        check(abs(lines[i]["loss"] - loss.item()) < 1e-4 * abs(loss.item()),
              f"{net.__name__}: loss {i}, {lines[i]['loss']} and {loss.item()}")
        optimizer.step()
    for k, v in model.state_dict().items():
        # Adam's first steps are of the size of the rate whatever the gradient's; a sign near zero may differ
        bound, mine = 1e-4 if "running" in k else 2e-3, end.get(ours(net, k))
        check(mine is not None and relative(mine.float(), v.float()) < bound,
              f"{net.__name__}: {k} at the end, {'absent' if mine is None else relative(mine.float(), v.float())}")
finish()
