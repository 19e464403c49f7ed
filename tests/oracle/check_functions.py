"""check_functions.py BUILD: functions that builtins.def defines by a formula, rms_norm and prelu, attention with masks
and biases, convolutions with computed kernels and grid_sample, next to PyTorch in float64: values by position and
gradients, at kinks and far from 0, also where a model has modules and functions of its own that bear the names of
functions in a formula.
"""
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from checks import some
from oracle_nets import philox
from oracle_tools import ROOT, Workplace, check, finish, load_tensors, relative, save_tensors, torch

F = torch.nn.functional
place = Workplace(sys.argv[1])
torch.manual_seed(3)
edges = torch.tensor([-40.0, -20.0, -3.1, -3.0, -2.9, -1.0, -0.5, -0.3, -1e-3, 0.2, 0.5, 0.7, 1.0, 2.9, 3.0, 3.1, 6.0,
                      19.0])
tensors = {"x": torch.cat([edges, torch.randn(22) * 2]).view(5, 8), "y": torch.randn(5, 8), "p": torch.rand(5, 8) + 0.1,
           "u": torch.rand(5, 8) * 1.8 - 0.9,
           "halves": torch.arange(40).view(5, 8) / 4 - 5, "w": torch.rand(5, 8)}
axes = {"query": "M T E", "key": "M S E", "val": "M S E", "few_k": "M S E", "few_v": "M S E", "seen": "M S",
        "by_head": "heads T S", "by_key": "S",
        # others: T E
        "image": "M C H W", "kernel": "O I kH kW", "volume": "M C D H W", "grid": "M P Q xy", "grid3": "M P Q R xyz"}
shapes = {"query": (2, 5, 8), "key": (2, 7, 8), "val": (2, 7, 8), "few_k": (2, 7, 4), "few_v": (2, 7, 4),
          "seen": (2, 7), "by_head": (2, 5, 7),
          "by_key": (7,), "image": (2, 4, 6, 5), "kernel": (6, 2, 3, 2), "volume": (2, 3, 3, 4, 5)}
tensors.update({n: torch.randn(shape) for n, shape in shapes.items()})
tensors["seen"][1] = -1  # one sample sees no key
tensors["grid"], tensors["grid3"] = torch.rand(2, 3, 7, 2) * 3.6 - 1.8, torch.rand(2, 3, 2, 4, 3) * 3 - 1.5
F32_LOW = -torch.finfo(torch.float32).max


def focal(x, t, alpha=0.25, gamma=2.0):
    """torchvision.ops.sigmoid_focal_loss, without its reduction."""
    p, ce = torch.sigmoid(x), F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return ce * (1 - (p * t + (1 - p) * (1 - t)))**gamma * (alpha * t + (1 - alpha) * (1 - t))


def crps(mean, t, deviation):
    """properscoring's crps_gaussian (Gneiting et al. 2005)."""
    z, normal = (t - mean) / deviation, torch.distributions.Normal(0.0, 1.0)
    return deviation * (z * (2 * normal.cdf(z) - 1) + 2 * normal.log_prob(z).exp() - math.pi**-0.5)


def overlap(p, t, dims, alpha, beta, smooth):
    """The Tversky loss (Salehi et al. 2017) of each element left by `dims`, averaged."""
    hit, false_alarm, miss = (v.sum(dims) for v in (p * t, p * (1 - t), (1 - p) * t))
    return (1 - (hit + smooth) / (hit + alpha * false_alarm + beta * miss + smooth)).mean()


without_gradient = {"halves", "seen"}  # rounded and compared only
cases = []  # (name, text, value)


def case(text, value):
    cases.append((re.match(r"\w+", text)[0], text, value))


same = {"mish": F.mish, "selu": F.selu, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardtanh": F.hardtanh,
        "relu6": F.relu6,
        "softsign": F.softsign, "tanhshrink": F.tanhshrink, "softshrink": F.softshrink, "hardshrink": F.hardshrink,
        "logsigmoid": F.logsigmoid,
        "celu": F.celu, "ceil": torch.ceil, "trunc": torch.trunc, "frac": torch.frac, "sinc": torch.sinc,
        "exp2": torch.exp2, "reciprocal": torch.reciprocal}
for name, f in same.items():
    case(f"{name}(x)", lambda t, f=f: f(t["x"]))
for name, f in {"tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh}.items():
    case(f"{name}(y)", lambda t, f=f: f(t["y"]))
case("sinh(0.001 * y)", lambda t: torch.sinh(0.001 * t["y"]))  # all digits near 0
case("atanh(u)", lambda t: torch.atanh(t["u"]))
case("log2(p)", lambda t: torch.log2(t["p"]))
case("log10(p)", lambda t: torch.log10(t["p"]))
case("round(halves)", lambda t: torch.round(t["halves"]))
case("round(x)", lambda t: torch.round(t["x"]))
case("celu(x, alpha=0.5)", lambda t: F.celu(t["x"], 0.5))
case("hardtanh(x, min=-2, max=0.3)", lambda t: F.hardtanh(t["x"], -2, 0.3))
case("softshrink(x, bound=0.8)", lambda t: F.softshrink(t["x"], 0.8))
case("hardshrink(x, bound=0.8)", lambda t: F.hardshrink(t["x"], 0.8))
case("lerp(x, y, w)", lambda t: torch.lerp(t["x"], t["y"], t["w"]))
case("lerp(x, 2, 0.25)", lambda t: t["x"] + 0.25 * (2 - t["x"]))
case("softmin(x, over=E)", lambda t: F.softmin(t["x"], 1))
case("glu(x, over=E)", lambda t: F.glu(t["x"], 1))
case("glu(x[T=:4], over=T)", lambda t: F.glu(t["x"][:4], 0))
case("geglu(x, over=E)", lambda t: t["x"][:, :4] * F.gelu(t["x"][:, 4:]))
case("swiglu(x, over=E)", lambda t: F.silu(t["x"][:, :4]) * t["x"][:, 4:])
for over, dims in (("E", 1), ("T", 0), ("[T, E]", (0, 1))):
    case(f"logsumexp(x, over={over})", lambda t, d=dims: torch.logsumexp(t["x"], d))
    case(f"normalize(x, over={over})",
         lambda t, d=dims: t["x"] / torch.linalg.vector_norm(t["x"], dim=d, keepdim=True).clamp(min=1e-12))
    case(f"cosine_similarity(x, y, over={over})",
         lambda t, d=dims: (t["x"] * t["y"]).sum(d) / (torch.linalg.vector_norm(t["x"], dim=d)
                                                       * torch.linalg.vector_norm(t["y"], dim=d)))
case("logsumexp(60 * x)", lambda t: torch.logsumexp(60 * t["x"], (0, 1)))  # exp alone would overflow
case("isnan(log(y)) * x", lambda t: torch.isnan(torch.log(t["y"])) * t["x"])
case("isfinite(log(halves * halves)) * x", lambda t: torch.isfinite(torch.log(t["halves"]**2)) * t["x"])
case("nan_to_num(x)", lambda t: torch.nan_to_num(t["x"]))
case("1e-38 * nan_to_num(stop_gradient(log(halves)))",
     lambda t: 1e-38 * torch.nan_to_num(torch.log(t["halves"].detach()), neginf=F32_LOW))
case("nan_to_num(stop_gradient(sign(halves) * log(0 * abs(halves))), nan=2, posinf=3, neginf=-4)",
     lambda t: torch.nan_to_num(torch.sign(t["halves"]) * -torch.inf, 2, 3, -4).detach())
reductions = {"": lambda l: l.mean(), ', reduction="mean"': lambda l: l.mean(), ', reduction="sum"': lambda l: l.sum(),
              ', reduction="none"': lambda l: l}
for text, f in reductions.items():
    case(f"reduced(x * y{text})", lambda t, f=f: f(t["x"] * t["y"]))
    case(f"gaussian_nll_loss(x, y, p{text})",
         lambda t, f=f: f(F.gaussian_nll_loss(t["x"], t["y"], t["p"], reduction="none")))
    case(f"kl_div(x, max(u, 0){text})", lambda t, f=f: f(F.kl_div(t["x"], t["u"].clamp(min=0), reduction="none")))
    case(f"focal_loss(y, w{text})", lambda t, f=f: f(focal(t["y"], t["w"])))
    case(f"crps_gaussian(x, y, p{text})", lambda t, f=f: f(crps(t["x"], t["y"], t["p"])))
case("focal_loss(20 * y, w, alpha=0.6, gamma=1.5)", lambda t: focal(20 * t["y"], t["w"], 0.6, 1.5).mean())
for over, dims in (("", (0, 1)), (", over=E", 1), (", over=[T, E]", (0, 1))):
    case(f"dice_loss(w, p{over})", lambda t, d=dims: overlap(t["w"], t["p"], d, 0.5, 0.5, 5e-6))
    case(f"tversky_loss(w, p{over}, alpha=0.3, beta=0.7, smooth=1)",
         lambda t, d=dims: overlap(t["w"], t["p"], d, 0.3, 0.7, 1))
rms = lambda x, w, d, eps: x * torch.rsqrt((x * x).mean(d, keepdim=True) + eps) * w
case("rms_norm(x) @n", lambda t: rms(t["x"], t["n.weight"], 1, 1e-6))
case("rms_norm(x, eps=0.1, over=T) @m", lambda t: rms(t["x"], t["m.weight"][:, None], 0, 0.1))
case("rms_norm(x, affine=false)", lambda t: rms(t["x"], 1, 1, 1e-6))
case("layer_norm(x, affine=false)", lambda t: F.layer_norm(t["x"], (8,)))
case("layer_norm(x, eps=0.1, over=T, affine=false)", lambda t: F.layer_norm(t["x"].T, (5,), eps=0.1).T)
case("layer_norm(x, bias=false) @lw", lambda t: F.layer_norm(t["x"], (8,), t["lw.weight"]))
case("batch_norm(image, affine=false, running=false)", lambda t: F.batch_norm(t["image"], None, None, training=True))
case("batch_norm(volume, eps=0.1, running=false) @bn",
     lambda t: F.batch_norm(t["volume"], None, None, t["bn.weight"], t["bn.bias"], True, eps=0.1))
case("prelu(x) @a", lambda t: F.prelu(t["x"], t["a.weight"]))
case("prelu(x, over=E) @b", lambda t: F.prelu(t["x"], t["b.weight"]))


def attention(q, k, v, heads, *added, seen=None):
    """PyTorch's scaled_dot_product_attention, written out for versions without: zeros where no key is seen."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-2, -1) / q.shape[-1]**0.5 + sum(added)
    if seen is None:
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)
    seen = (seen > 0).expand(scores.shape)
    shares = torch.softmax(scores.masked_fill(~seen, -torch.inf).masked_fill(~seen.any(-1, keepdim=True), 0), -1)
    return (shares * seen @ v).transpose(1, 2).flatten(2)


repeated = lambda x: x.unflatten(-1, (2, -1)).repeat_interleave(2, 2).flatten(2)
case("attention(query, key, val, 2, bias=by_head)",
     lambda t: attention(t["query"], t["key"], t["val"], 2, t["by_head"]))
case("attention(query, key, val, 2, bias=by_key, causal=false)",
     lambda t: attention(t["query"], t["key"], t["val"], 2, t["by_key"]))
case("attention(query, key, val, 2, mask=seen > 0, bias=by_head)",
     lambda t: attention(t["query"], t["key"], t["val"], 2, t["by_head"], seen=t["seen"][:, None, None]))
case("attention(query, key, val, 4, mask=by_key > 0)",
     lambda t: attention(t["query"], t["key"], t["val"], 4, seen=t["by_key"]))
case("attention(query, few_k, few_v, 4, kv_heads=2)",
     lambda t: attention(t["query"], repeated(t["few_k"]), repeated(t["few_v"]), 4))
case("attention(query, few_k, few_v, 2, kv_heads=1, mask=seen > 0)",
     lambda t: attention(t["query"], t["few_k"].repeat(1, 1, 2), t["few_v"].repeat(1, 1, 2), 2,
                         seen=t["seen"][:, None, None]))
standard = lambda w: (w - w.mean((1, 2, 3), keepdim=True)) / (w.var((1, 2, 3), keepdim=True, unbiased=False) +
                                                              0.1).sqrt()
case("conv(image, kernel=(kernel - mean(kernel, over=[I, kH, kW])) / sqrt(var(kernel, over=[I, kH, kW]) + 0.1), "
     "groups=2, pad=1)",
     lambda t: F.conv2d(t["image"], standard(t["kernel"]), padding=1, groups=2))
case("conv(image, kernel=kernel, groups=2, stride=[2, 1], dilation=[1, 3], pad=[0, 2])",
     lambda t: F.conv2d(t["image"], t["kernel"], stride=(2, 1), dilation=(1, 3), padding=(0, 2), groups=2))
case("conv_transpose(image, kernel=sin(kernel[O=:4]), groups=2, stride=[2, 1], pad=[0, 1], out_pad=[1, 0])",
     lambda t: F.conv_transpose2d(t["image"], t["kernel"][:4].sin(), stride=(2, 1), padding=(0, 1),
                                  output_padding=(1, 0), groups=2))
# a kernel of activations
case("conv(volume[C=0:1], kernel=exp(volume as [O, I, kD, kH, kW])[I=0:1, kD=:2, kH=:2, kW=:3])",
     lambda t: F.conv3d(t["volume"][:, :1], t["volume"].exp()[:, :1, :2, :2, :3]))
for padding in ("zeros", "border", "reflection"):
    for mode in ("bilinear", "nearest"):
        for corners in (False, True):
            f = lambda x, g, o=(mode, padding, corners): F.grid_sample(x, g, o[0], o[1], o[2])
            options = f'mode="{mode}", padding="{padding}", align_corners={str(corners).lower()}'
            case(f"grid_sample(image, grid, {options})", lambda t, f=f: f(t["image"], t["grid"]))
            if corners == (mode == "nearest"):
                case(f"grid_sample(volume, grid3, {options})", lambda t, f=f: f(t["volume"], t["grid3"]))
# segments: of one axis, of two, with a batch, numbers out of range, x that lacks an axis of the numbers
numbers = torch.tensor([[3, 0, 3, 1, 9], [0, -1, 0, 0, 2]])  # M T
chosen = lambda n, count: F.one_hot(torch.where((n >= 0) & (n < count), n, count), count + 1)[..., :count].double()
written = "([[3, 0, 3, 1, 9], [0, -1, 0, 0, 2]] as [M, T])"
for name, part in (("sum", lambda s, n: s), ("mean", lambda s, n: s / n.clamp(min=1))):
    case(f"segment_{name}(x, {written}[M=0], over=T, V=4)",
         lambda t, f=part: f(torch.einsum("te,tv->ve", t["x"], chosen(numbers[0], 4)),
                           chosen(numbers[0], 4).sum(0)[:, None]))
    case(f"segment_{name}(query, {written}, over=T, V=4)",
         lambda t, f=part: f(torch.einsum("mte,mtv->mve", t["query"], chosen(numbers, 4)),
                           chosen(numbers, 4).sum(1)[..., None]))
    case(f"segment_{name}(x, {written}, over=[T, M], V=5)",
         lambda t, f=part: f(torch.einsum("te,mtv->ve", t["x"], chosen(numbers, 5)),
                           chosen(numbers, 5).sum((0, 1))[:, None]))
case('grid_sample(image[C=0:1], floor(4 * grid) / 4, align_corners=true)',  # places at elements and at the edges
     lambda t: F.grid_sample(t["image"][:, :1], torch.floor(4 * t["grid"]) / 4, align_corners=True))
# angles, at all signs and quadrants; remainders next to multiples, of either sign
for name, of in {"atan": torch.atan, "asin": torch.asin, "acos": torch.acos}.items():
    case(f"{name}({'x' if name == 'atan' else 'u'})", lambda t, of=of, n=name: of(t["x" if n == "atan" else "u"]))
case("atan2(x, y)", lambda t: torch.atan2(t["x"], t["y"]))
case("atan2(y, 2)", lambda t: torch.atan2(t["y"], torch.tensor(2.0, dtype=t["y"].dtype)))
case("fmod(x, y)", lambda t: torch.fmod(t["x"], t["y"]))
case("fmod(1000 * x, 0.1)", lambda t: torch.fmod(1000 * t["x"].float(), torch.tensor(0.1)).double().detach()
     + (1000 * t["x"] - 1000 * t["x"].detach()))
case("fmod(x, 1 / (stop_gradient(y) * 0))", lambda t: t["x"])
# random numbers: by seed 0 and step 0, numbered in the order of the text
drawn = lambda number, *shape: philox(0, 0, number, math.prod(shape)).reshape(shape).double()
case("rand(x) * x", lambda t: drawn(0, 5, 8) * t["x"])
case("rand(x, over=E) * x", lambda t: drawn(1, 8) * t["x"])
case("randn(image, over=[C, W]) * image", lambda t: ((-2 * torch.log(1 - drawn(2, 4, 5))).sqrt() * torch.cos(
    2 * math.pi * drawn(3, 4, 5)))[:, None] * t["image"])
case("randint(x, -2, 3, over=T) * x", lambda t: (torch.floor(5 * drawn(4, 5)) - 2)[:, None] * t["x"])
case("x |> dropout(0.4, over=T)", lambda t: t["x"] * ((drawn(5, 5) >= 0.4) / 0.6)[:, None])
position = lambda t, n: t * 10000.0**(-torch.arange(n // 2, dtype=torch.float64) / (n // 2))
case("timestep_embedding(stop_gradient(halves)[E=0], 6)", lambda t: torch.cat(
    [f(position(t["halves"][:, :1], 6)) for f in (torch.cos, torch.sin)], 1).detach())
# order
case("sort(x, over=E)", lambda t: t["x"].sort(1).values)
case("sort(y, over=T, descending=true)", lambda t: t["y"].sort(0, descending=True).values)
case("median(x, over=E)", lambda t: t["x"].median(1).values)
case("median(y, over=T)", lambda t: t["y"].median(0).values)
case("isnan(median(log(stop_gradient(y)), over=T)) * x",
     lambda t: torch.isnan(torch.log(t["y"]).median(0).values) * t["x"])
for q in (0, 0.3, 0.5, 1):
    case(f"quantile(x, {q}, over=E)", lambda t, q=q: t["x"].quantile(q, 1))
# patches and sizes of images
case("pixel_shuffle(image, 2)", lambda t: F.pixel_shuffle(t["image"], 2))
case("pixel_unshuffle(image[W=:4], 2)", lambda t: F.pixel_unshuffle(t["image"][..., :4], 2))
case("pixel_shuffle(image, [1, 4])", lambda t: torch.einsum("mqhw->mhwq", t["image"]).reshape(2, 1, 6, 20))
case("pixel_unshuffle(pixel_shuffle(volume[C=:2], [1, 2, 1]), [1, 2, 1])", lambda t: t["volume"][:, :2])
for k, s, p, d in ((2, 1, 0, 1), ((3, 2), (2, 1), (1, 2), (1, 2)), (3, 2, 1, 1)):
    words = lambda v: f"[{v[0]}, {v[1]}]" if isinstance(v, tuple) else v
    options = f"{words(k)}, stride={words(s)}, pad={words(p)}, dilation={words(d)}"
    case(f"unfold(image, {options})", lambda t, o=(k, d, p, s): F.unfold(t["image"], *o))
    case(f"fold(unfold(image, {options}) ** 2, [6, 5], {options})",
         lambda t, o=(k, d, p, s): F.fold(F.unfold(t["image"], *o)**2, (6, 5), *o))
for size in ([3, 5], [4, 3], [1, 2], [7, 9]):
    case(f"adaptive_max_pool(image, {size})", lambda t, s=size: F.adaptive_max_pool2d(t["image"], s))
case("adaptive_max_pool(volume, [2, 3, 2])", lambda t: F.adaptive_max_pool3d(t["volume"], (2, 3, 2)))
case("roll(image, [2, -1], over=[H, W])", lambda t: t["image"].roll((2, -1), (2, 3)))
case("roll(image, 7, over=[H, C])", lambda t: t["image"].roll((7, 7), (2, 1)))
for size in ([9, 11], [4, 3], [6, 10], [1, 1]):
    for corners in (False, True):
        case(f'upsample(image, size={size}, mode="bicubic", align_corners={str(corners).lower()})',
             lambda t, s=size, c=corners: F.interpolate(t["image"], s, mode="bicubic", align_corners=c))
    for mode in ("bilinear", "bicubic"):
        case(f'upsample(image, size={size}, mode="{mode}", antialias=true)',
             lambda t, s=size, m=mode: F.interpolate(t["image"], s, mode=m, antialias=True))
# greatest and smallest of segments; 0 where there is none
for name, far, of in (("max", -torch.inf, torch.amax), ("min", torch.inf, torch.amin)):
    def extreme(x, n, count, dims, far=far, of=of):  # n with x's axes: [..., T, E]
        hit = n[..., None] == torch.arange(count)
        y = of(torch.where(hit, x[..., None], torch.tensor(far, dtype=x.dtype)), dims)
        any_hit = hit.double().amax(dims) > 0
        return torch.where(any_hit, y, torch.zeros((), dtype=y.dtype)).transpose(-1, -2)
    case(f"segment_{name}(x, {written}[M=0], over=T, V=4)",
         lambda t, f=extreme: f(t["x"], numbers[0][:, None].expand(5, 8), 4, 0))
    case(f"segment_{name}(query, {written}, over=T, V=4)",
         lambda t, f=extreme: f(t["query"], numbers[..., None].expand(2, 5, 8), 4, 1))
    case(f"segment_{name}(query, {written}, over=[T, M], V=5)",
         lambda t, f=extreme: f(t["query"], numbers[..., None].expand(2, 5, 8), 5, (0, 1)))
layers = {"n.weight": torch.rand(8) + 0.5, "m.weight": torch.rand(5) + 0.5, "a.weight": torch.rand(1),
          "b.weight": torch.rand(8), "lw.weight": torch.rand(8) + 0.5, "bn.weight": torch.rand(3) + 0.5,
          "bn.bias": torch.randn(3)}

source = (ROOT / "frontends/dl/builtins.def").read_text()
formulas = set(re.findall(r'^FORMULA\("(\w+)"', source, re.M))
check(formulas and formulas <= {name for name, _, _ in cases},
      f"every formula has a case: {sorted(formulas - {n for n, _, _ in cases})}")

# A share has each function, and all that has weights or draws random numbers, which are numbered as the model has them.
cases = some(cases, lambda c: (c[1] if re.search(r"@|\b(rand\w*|dropout)\(", c[1]) else
                               (c[0], *re.findall("bias|mask|kernel=|nearest|cubic|antialias", c[1]))))
double = {n: t.double().requires_grad_() for n, t in {**tensors, **layers}.items()}
values = [value(double) for _, _, value in cases]
weights = {f"g{i}": torch.randn(v.shape) for i, v in enumerate(values)}
out = ["module softplus()(x): return 0.0 * x", "model Functions():", "    input v: f32[N, Y=1]",
       "    tanh(x) = 0.0 * x", "    abs(x) = 0.0 * x"]
sizes = lambda n: ", ".join(f"{a}={size}" for a, size in zip(axes.get(n, "T E").split(), tensors[n].shape))
out += [f"    param {n}: [{sizes(n)}] ~ normal(0, 1)" for n in tensors]
out += ["    output v", "    loss = sum(v) * 0.0"]
for i, (_, text, _) in enumerate(cases):
    by_position = [f"P{k}={size}" for k, size in enumerate(values[i].shape)]
    out.append(f"    param g{i}: [{', '.join(by_position)}] ~ normal(0, 1)")
    named = f" as [{', '.join(p[:2] for p in by_position)}]" if by_position else ""
    out.append(f"    c{i} = {text}")
    out.append(f"    loss += sum(g{i} * (c{i}{named}))")
path = place / "functions.dl"
path.write_text("\n".join(out) + "\n")
save_tensors(place / "w.safetensors", {**tensors, **layers, **weights})
save_tensors(place / "b.safetensors", {"v.0": torch.ones(2, 1)})
place.run("dlrun", path, "--local_batch_size=2", f"--expdir={place / 'run'}",
          f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd",
          f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}")
got = load_tensors(place / "g.safetensors")
loss = 0
for i, (_, text, _) in enumerate(cases):
    off = relative(got[f"g{i}"].double(), values[i].detach().double())  # the gradient of its weight is the value itself
    check(off < 2e-6, f"{text}: the values are {off:.2g} off")  # tan and exp2 of float32 arguments: some ulps
    loss = loss + (weights[f"g{i}"].double() * values[i]).sum()
loss.backward()
for n in {**tensors, **layers}:
    if n in without_gradient or n not in got or double[n].grad is None:
        check(n not in got and (double[n].grad is None or not (double[n].grad != 0).any()), f"{n} has no gradient")
        continue
    off = relative(got[n].double(), double[n].grad)
    check(off < 1e-5, f"gradient of {n}: {off:.2g} off")
finish()
