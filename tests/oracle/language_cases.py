"""Cases of check_language.py: losses with weights and reductions, constants, lists, casts; gradients at kinks."""
from language_runs import F, N, P, case, inf, nan, whole
from oracle_tools import torch

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
