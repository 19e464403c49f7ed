"""check_gradients.py BUILD: gradients of gradients, against torch.autograd.grad(create_graph=True) in float64.

Each case is an expression of the model language and PyTorch's. The model computes, in f64 and compiled, the first
gradient g of sum(r f(x)) by x, the loss sum(q g) and its gradients by x and by all parameters; cases marked `third` go
one order further, of a share a third of them.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from checks import turn
from oracle_tools import Workplace, check, finish, load_tensors, save_tensors, torch
import json

F = torch.nn.functional
torch.manual_seed(11)
place = Workplace(sys.argv[1])
D = torch.float64


def normed(x, *over):
    """By its formula: the third derivatives of torch 1.13's own layer_norm and batch_norm do not sum to zero over the
    axes."""
    d = x - x.mean(over, keepdim=True)
    return d * torch.rsqrt((d**2).mean(over, keepdim=True) + 1e-5)


cases = []


def case(name, dl, expect, axes, shape, params=(), third=True, x=None):
    """dl: the expression in {x} and the parameters {name}; params: {name: (axes, tensor)}."""
    x = torch.randn(shape, dtype=D) if x is None else x.to(D)
    cases.append((name, dl, expect, axes, x, dict(params), third))


def P(axes, *shape, scale=1.0, shift=0.0):
    return axes, torch.randn(shape, dtype=D) * scale + shift


K = ("K=6", (6,))
plus = torch.rand(6) + 0.5
# pointwise
for name in ("exp", "sin", "cos", "tanh", "sigmoid", "erf", "expm1", "square", "abs", "relu", "neg"):
    f = getattr(torch, name)
    case(name, "-{x}" if name == "neg" else name + "({x})", f, *K)
for name in ("log", "sqrt", "rsqrt", "log1p"):
    case(name, name + "({x})", getattr(torch, name), *K, x=plus)
for k in (2, 3, 4, -1, 0.5, 1, 2.5):
    case(f"power {k}", "{x}**%s" % k, lambda x, k=k: x**k, *K, x=plus)
for k in (1, 2, 3):
    case(f"power {k} at zero", "{x}**%s" % k, lambda x, k=k: x**k, *K, x=torch.tensor([0.0, 1, -1, 2, 0, -3]))
case("power of tensors", "{x}**{w}", lambda x, w: x**w, *K, {"w": P("K=6", 6)}, x=plus)
case("quotient", "{w} / {x}", lambda x, w: w / x, *K, {"w": P("K=6", 6)}, x=plus)
case("product", "{w} * {x} * {x}", lambda x, w: w * x * x, *K, {"w": P("K=6", 6)})
case("maximum", "max({x}, {w}) * {x}", lambda x, w: torch.maximum(x, w) * x, *K, {"w": P("K=6", 6)})
case("minimum", "min({x}, {w}) * {x}", lambda x, w: torch.minimum(x, w) * x, *K, {"w": P("K=6", 6)})
case("where", "where({x} > 0, {x}**3, {w} * {x}**2)", lambda x, w: torch.where(x > 0, x**3, w * x**2), *K,
     {"w": P("K=6", 6)})
for name, f in (("silu", F.silu), ("gelu", F.gelu), ("softplus", F.softplus), ("elu", F.elu), ("mish", F.mish),
                ("selu", F.selu),
                ("hardswish", F.hardswish), ("softsign", F.softsign)):
    case(name, name + "({x})", f, *K)
case("leaky_relu", "leaky_relu({x}, 0.2) * {x}", lambda x: F.leaky_relu(x, 0.2) * x, *K)
case("clamp", "clamp({x}, min=-0.5, max=0.7)**2 * {x}", lambda x: x.clamp(-0.5, 0.7)**2 * x, *K)
case("gelu, tanh", 'gelu({x}, approximate="tanh")', lambda x: F.gelu(x, approximate="tanh"), *K)
# reductions and what normalises
M = ("B=3, K=5", (3, 5))
case("sum", "sum({x}**2, over=K)**2", lambda x: (x**2).sum(1)**2, *M)
case("mean", "mean({x}**3, over=B)**2", lambda x: (x**3).mean(0)**2, *M)
case("prod", "prod({x}, over=K)", lambda x: x.prod(1), *M)
case("cumsum", "cumsum(sin({x}), over=K)**2", lambda x: x.sin().cumsum(1)**2, *M)
case("max over", "max({x}, over=K)**3", lambda x: x.amax(1)**3, *M)
# with two segments that have no elements
parts = {0: [0, 3], 2: [1, 2], 4: [4]}
segments = lambda f, x: torch.stack([f(x[:, parts[s]], 1) if s in parts else 0 * x[:, 0] for s in range(6)], 1)
for name, f in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin)):
    case(f"segment_{name}", "segment_%s(sin({x}), [0, 2, 2, 0, 4] as [K], over=K, S=6)**2 * {w}" % name,
         lambda x, w, f=f: segments(f, x.sin())**2 * w, *M, {"w": P("S=6", 6)})
case("var", "var({x}, over=K)**2", lambda x: x.var(1, unbiased=False)**2, *M)
case("std", "std({x}, over=K)", lambda x: x.std(1, unbiased=False), *M)
case("norm", "norm({x}, over=K)", lambda x: x.norm(dim=1), *M)
case("softmax", "softmax({x}, over=K)**2", lambda x: x.softmax(1)**2, *M)
case("log_softmax", "log_softmax({x}, over=K)", lambda x: x.log_softmax(1), *M)
case("logsumexp", "logsumexp({x}, over=K)", lambda x: x.logsumexp(1), *M)
case("cosine", "cosine_similarity({x}, {w}, over=K)", lambda x, w: F.cosine_similarity(x, w, dim=1), *M,
     {"w": P("B=3, K=5", 3, 5)})
case("norm by formula", "standardise({x}) * {w} + {b}", lambda x, w, b: normed(x, 1) * w + b, *M,
     {"w": P("K=5", 5), "b": P("K=5", 5)})
case("cross_entropy", 'cross_entropy({x} as [B, C], softmax({w}, over=C), reduction="none")',
     lambda x, w: F.cross_entropy(x, w.softmax(1), reduction="none"), *M, {"w": P("B=3, C=5", 3, 5)})
case("bce", 'bce_with_logits({x}, {w}, reduction="none")',
     lambda x, w: F.binary_cross_entropy_with_logits(x, w, reduction="none"), *M,
     {"w": P("B=3, K=5", 3, 5)})
case("huber", "huber_loss({x}**2, {w})", lambda x, w: F.huber_loss(x**2, w), *M, {"w": P("B=3, K=5", 3, 5)})
# moves
I = ("B=2, C=3, W=8", (2, 3, 8))
sq = lambda f: (lambda x, *a: f(x**2, *a)**2)
case("slices", "({x}[W=1:5] * {x}[W=3:7])**2", lambda x: (x[..., 1:5] * x[..., 3:7])**2, *I)
case("steps", "({x}**2)[W=1::3]**2", sq(lambda x: x[..., 1::3]), *I)
case("cat", "cat({x}**2, {w}, {x}, over=W)**2", lambda x, w: torch.cat([x**2, w, x], 2)**2, *I,
     {"w": P("B=2, C=3, W=2", 2, 3, 2)})
case("flip, roll", "(flip({x}, over=W) * roll({x}, 3, over=W))**2", lambda x: (x.flip(2) * x.roll(3, 2))**2, *I)
for mode in ("constant", "replicate", "reflect", "circular"):
    case(f"pad {mode}", f'pad({{x}}**2, 2, mode="{mode}", over=W)**2',
         sq(lambda x, how=mode: F.pad(x, (2, 2), mode=how)), *I)
case("rearrange", '(({x}**2) |> rearrange("n c w -> n (w c)") as [B, E])**2',
     lambda x: (x**2).transpose(1, 2).reshape(2, 24)**2, *I)
case("rearrange many", '(({x}**2) |> rearrange("n (a b c d) (e f g h) w -> n (e b a) (h d w) (g c f)", b=3, c=2, d=1, '
     'e=2, f=2, g=1) as [B, C, H, W])**2', lambda x: (x**2).reshape(2, 2, 3, 2, 1, 2, 2, 1, 2, 2).permute(
         0, 5, 2, 1, 8, 4, 9, 7, 3, 6).reshape(2, 12, 4, 4)**2, "B=2, C=12, H=8, W=2", (2, 12, 8, 2))
index = torch.tensor([2, 0, 0, 7, 5])
case("gather", "gather({x}**2, [2, 0, 0, 7, 5] as [K], over=W)**2", sq(lambda x: x[..., index]), *I)
# pools, resizing
for k in (2, 3):
    case(f"max_pool {k}", "max_pool({x}, %d)**3" % k, lambda x, k=k: F.max_pool1d(x, k)**3, *I)
case("max_pool overlapping", "max_pool({x}, 3, stride=2, pad=1)**3", lambda x: F.max_pool1d(x, 3, 2, 1)**3, *I)
case("avg_pool", "avg_pool({x}**2, 3, stride=2, pad=1)**2", sq(lambda x: F.avg_pool1d(x, 3, 2, 1)), *I)
case("adaptive_avg_pool", "adaptive_avg_pool({x}**2, 3)**2", sq(lambda x: F.adaptive_avg_pool1d(x, 3)), *I)
for mode in ("nearest", "linear"):
    for size in (16, 12, 5):
        case(f"upsample {mode} {size}", 'upsample({x}**2, size=%d, mode="%s")**2' % (size, mode),
             sq(lambda x, s=size, m=mode: F.interpolate(x, size=s, mode=m)), *I)
# contractions
case("einsum", 'einsum("ncw,kw->nck", {x}**2, {w})**2', lambda x, w: torch.einsum("ncw,kw->nck", x**2, w)**2, *I,
     {"w": P("K=4, W=8", 4, 8)})
case("product of itself", 'einsum("ncw,ndw->ncd", {x}, {x})**2', lambda x: torch.einsum("ncw,ndw->ncd", x, x)**2, *I)


def layers():
    """Layers with parameters, each as a module of the model: {name: (axes of x, shape, pipeline, parameters,
    function)}."""
    r = lambda *s: torch.randn(s, dtype=D) * 0.5
    image, line, tokens = ("B=2, C=3, H=5, W=6", (2, 3, 5, 6)), ("B=2, C=4, W=9",
                                                                 (2, 4, 9)), ("B=2, T=5, E=6", (2, 5, 6))
    yield "linear", tokens, "{x} |> linear(3) @{l} |> tanh", {"weight": r(3, 6),
                                                              "bias": r(3)}, lambda x, p: torch.tanh(F.linear(x, *p))
    yield "conv", image, "tanh({x}) |> conv(4, 3, pad=1) @{l} |> tanh", {"weight": r(4, 3, 3, 3), "bias": r(4)}, \
        lambda x, p: torch.tanh(F.conv2d(torch.tanh(x), *p, padding=1))
    yield "conv strided", line, "{x}**2 |> conv(6, 3, stride=2, dilation=2, groups=2, pad=1) @{l} |> sigmoid", \
        {"weight": r(6, 2, 3), "bias": r(6)}, \
        lambda x, p: torch.sigmoid(F.conv1d(x**2, *p, 2, 1, 2, 2))
    yield "conv_transpose", line, "{x}**2 |> conv_transpose(6, 3, stride=2, pad=1, groups=2) @{l} |> tanh", \
        {"weight": r(4, 3, 3), "bias": r(6)}, \
        lambda x, p: torch.tanh(F.conv_transpose1d(x**2, *p, 2, 1, groups=2))
    yield "conv, pools", image, \
        "tanh({x}) |> conv(4, 3, pad=1) @{l} |> max_pool(2) |> tanh |> upsample(scale_factor=2) |> square", \
        {"weight": r(4, 3, 3, 3), "bias": r(4)}, \
        lambda x, p: F.interpolate(torch.tanh(F.max_pool2d(F.conv2d(torch.tanh(x), *p, padding=1), 2)),
                                   scale_factor=2)**2
    yield "layer_norm", tokens, "{x}**2 |> layer_norm @{l} |> tanh", {
        "weight": r(6), "bias": r(6)
    }, lambda x, p: torch.tanh(normed(x**2, 2) * p[0] + p[1])
    yield "group_norm", line, "{x}**2 |> group_norm(2) @{l} |> tanh", {
        "weight": r(4), "bias": r(4)
    }, lambda x, p: torch.tanh(F.group_norm(x**2, 2, *p))
    yield "batch_norm", line, "{x}**2 |> batch_norm @{l} |> tanh", {"weight": r(4), "bias": r(4)}, \
        lambda x, p: torch.tanh(normed(x**2, 0, 2) * p[0][:, None] + p[1][:, None])
    yield "rms_norm", tokens, "{x}**2 |> rms_norm @{l} |> tanh", {"weight": r(6)}, \
        lambda x, p: torch.tanh(x**2 * torch.rsqrt((x**4).mean(2, keepdim=True) + 1e-6) * p[0])

    def attend(x, p, causal):
        q, k, v = F.linear(x, *p).chunk(3, 2)
        q, k, v = (u.reshape(2, 5, 2, 3).transpose(1, 2) for u in (q, k, v))
        s = q @ k.transpose(2, 3) / 3**0.5
        if causal:
            s = s.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -float("inf"))
        return (s.softmax(3) @ v).transpose(1, 2).reshape(2, 5, 6)
    for causal in (False, True):
        more = ", causal=true" if causal else ""
        yield "attention" + more, tokens, "attend({x} |> linear(18) @{l}, %s)" % str(causal).lower(), \
            {"weight": r(18, 6), "bias": r(18)}, lambda x, p, causal=causal: attend(x, p, causal)


for name, x, dl, params, f in layers():
    cases.append((name, dl, f, x[0], torch.randn(x[1], dtype=D), {"@" + k: (None, v) for k, v in params.items()}, True))

cases = [(*c[:-1], c[-1] and turn(i, 3)) for i, c in enumerate(cases)]
text, weights = ["attend(h, late) = attention(h[E=:6], h[E=6:12], h[E=12:], 2, causal=late)",
                 "standardise(x) = (x - mean(x, over=K)) / sqrt(mean((x - mean(x, over=K))**2, over=K) + 0.00001)",
                 "model Gradients():", "    input unused: f32[N]"], {}
for i, (name, dl, expect, axes, x, params, third) in enumerate(cases):
    names = {k: f"c{i}_{k}" for k in params if k[0] != "@"}
    text.append(f"    param c{i}_x: f64[{axes}] ~ normal(0, 1)")
    weights[f"c{i}_x"] = x
    for k, (a, v) in params.items():
        weights[f"c{i}.{k[1:]}" if k[0] == "@" else f"c{i}_{k}"] = v
        if a:
            text.append(f"    param c{i}_{k}: f64[{a}] ~ normal(0, 1)")
    if name == "batch_norm":
        weights.update({f"c{i}.running_mean": torch.zeros(4, dtype=D), f"c{i}.running_var": torch.ones(4, dtype=D)})
    back = dl.format(x=f"c{i}_x", l=f"c{i}", **names)
    text.append(f"    f{i} = {back}")
    text.append(f"    g{i} = grad(sum(sin(f{i} + 0.3)), c{i}_x)")
    last = f"g{i}"
    if third:
        text.append(f"    h{i} = grad(sum(sin(g{i} + 0.1)), c{i}_x)")
        last = f"h{i}"
    text += [f"    l{i} = sum(cos({last} + 0.2))", f'    metric "case {i}" = l{i}']
text += ["    output l0", "    loss = " + " + ".join(f"l{i}" for i in range(len(cases))), ""]
(place / "model.dl").write_text("\n".join(text))
(place / "m.yaml").write_text("base: {}\n")
save_tensors(place / "w.safetensors", weights)
save_tensors(place / "b.safetensors", {"unused.0": torch.zeros(2)})
out = place.run("dlrun", place / "model.dl", f"--yaml_config={place / 'm.yaml'}", "--config=base",
                "--local_batch_size=2",
                f"--expdir={place / 'run'}", f"--init_weights={place / 'w.safetensors'}",
                f"--replay={place / 'b.safetensors'}",
                f"--save_grads={place / 'g.safetensors'}")
line = next(json.loads(x) for x in out.splitlines() if x.startswith("{") and '"step"' in x)
grads = load_tensors(place / "g.safetensors")
for i, (name, dl, expect, axes, x, params, third) in enumerate(cases):
    x = x.clone().requires_grad_()
    p = {k: v.clone().requires_grad_() for k, (_, v) in params.items()}
    f = expect(x, list(p.values())) if any(k[0] == "@" for k in p) else expect(x, **p)
    g, = torch.autograd.grad(torch.sin(f + 0.3).sum(), x, create_graph=True)
    if third:
        g, = torch.autograd.grad(torch.sin(g + 0.1).sum(), x, create_graph=True,
                                 allow_unused=True) if g.requires_grad else (None,)
        g = torch.zeros_like(x) if g is None else g
    loss = torch.cos(g + 0.2).sum()
    places = {f"c{i}_x": x, **{f"c{i}.{k[1:]}" if k[0] == "@" else f"c{i}_{k}": v for k, v in p.items()}}
    want = torch.autograd.grad(loss, list(places.values()),
                               allow_unused=True) if loss.requires_grad else [None] * len(places)
    got = line[f"case {i}"]
    wrong = "" if abs(got - loss.item()) <= 1e-6 * x.numel() else f"loss {got!r}, PyTorch has {loss.item()!r}"
    for k, w in zip(places, want):
        w = torch.zeros_like(places[k]) if w is None else w
        mine = grads[k].double() if k in grads else torch.zeros_like(w)
        off = (mine - w).abs().max().item()
        if not off <= 1e-9 * max(1, w.abs().max().item()):
            wrong += f" gradient of {k} off by {off:.2e} of {w.abs().max().item():.2e}"
    check(not wrong, f"{name} {wrong}")
finish()
