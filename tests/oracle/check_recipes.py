"""check_recipes.py BUILD: losses and modules of the cookbook next to PyTorch in float64: the loss of a step, and the
gradients of all weights. Random numbers are drawn here, too.
"""
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_nets import philox
from oracle_tools import ROOT, Workplace, check, finish, load_tensors, np, relative, save_tensors, torch

F = torch.nn.functional
place = Workplace(sys.argv[1])
torch.manual_seed(5)
PAGE = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("cookbook*.md"))
drawn = lambda number, *shape: philox(0, 0, number, math.prod(shape)).reshape(shape).double()
normal = lambda n, *shape: (-2 * (1 - drawn(n, *shape)).log()).sqrt() * (2 * math.pi * drawn(n + 1, *shape)).cos()
conv = lambda w, n, x: F.conv2d(x, w[f"{n}.weight"], w.get(f"{n}.bias"), padding=1)
linear = lambda w, n, x: F.linear(x, w[f"{n}.weight"], w.get(f"{n}.bias"))


def ssim(a, b):
    """Wang et al. 2004, with a Gaussian window of deviation 1.5."""
    k = torch.exp(-0.5 * ((torch.arange(11.0).double() - 5) / 1.5)**2)
    k = k / k.sum()
    mean = lambda x: F.conv2d(x, torch.outer(k, k).expand(x.shape[1], 1, 11, 11), groups=x.shape[1])
    ma, mb = mean(a), mean(b)
    va, vb, both = mean(a * a) - ma**2, mean(b * b) - mb**2, mean(a * b) - ma * mb
    return ((2 * ma * mb + 1e-4) * (2 * both + 9e-4) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4))).mean()


def similar(w, b):
    return 1 - ssim(torch.sigmoid(conv(w, "1", F.gelu(conv(w, "0", b["x"])))), b["t"])


def sharp(w, b):
    y = conv(w, "1", F.gelu(conv(w, "0", b["x"])))
    size = lambda u: (torch.view_as_real(torch.fft.rfft2(u, norm="ortho"))**2).sum(-1).add(1e-8).sqrt()
    return F.mse_loss(y, b["t"]) + 0.1 * F.l1_loss(size(y), size(b["t"]))


def perceptual(w, b):
    y = conv(w, "1", F.gelu(conv(w, "0", b["x"])))
    loss, pair = F.l1_loss(y, b["t"]), (y, b["t"])
    for i in range(2):
        pair = [conv({"s.weight": w[f"features.stage.{i}.weight"].detach()}, "s", x).relu() for x in pair]
        p, q = (x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1e-6) for x in pair)
        loss, pair = loss + 0.1 * ((p - q)**2).sum(1).mean(), [F.max_pool2d(x, 2) for x in pair]
    return loss


def normed(w, b):
    v, g = w["0.v"], w["0.g"]
    h = F.conv2d(b["x"], torch._weight_norm(v, g[:, None, None, None], 0), padding=1)
    v = w["1.v"]
    left = torch.ones(1).double()
    for _ in range(3):  # torch.nn.utils.spectral_norm's rounds, from ones
        right = F.normalize(v.detach().flatten(1).T @ left, dim=0)
        left = F.normalize(v.detach().flatten(1) @ right, dim=0)
    return F.mse_loss(F.conv2d(F.leaky_relu(h, 0.2), v / (left @ v.flatten(1) @ right), padding=1), b["t"])


def ctc(w, b):
    # torch.nn.LSTM's function: PyTorch 1's functional_call does not reach its weights
    own = [w[f"rnn.{n}_l0"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    none = torch.zeros(1, 2, 16).double()
    h = torch._VF.lstm(b["x"], (none, none), own, True, 1, 0.0, False, False, True)[0]
    scores = linear(w, "last", h).log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(scores, b["labels"], torch.full((2, ), 10), torch.full((2, ), 3))


def variational(w, b):
    h = linear(w, "0", b["x"]).relu()
    m, s = linear(w, "mean", h), linear(w, "logvar", h)
    y = linear(w, "2", linear(w, "1", m + (0.5 * s).exp() * normal(0, 2, 4)).relu())
    return F.mse_loss(y, b["x"]) + 0.1 * (0.5 * (s.exp() + m**2 - 1 - s)).mean()


def diffusion(w, b):
    t = torch.floor(1000 * drawn(0, 2))
    kept = (torch.cos(0.5 * math.pi * t / 1000)**2)[:, None, None, None]
    noise = normal(1, 2, 1, 16, 16)
    x = kept.sqrt() * b["x"] + (1 - kept).sqrt() * noise
    at = t[:, None] * 10000.0**(-torch.arange(8).double() / 8)
    e = F.silu(linear(w, "net.time", torch.cat([at.cos(), at.sin()], 1)))[..., None, None]
    h = conv(w, "net.enter", x)
    h = h + conv(w, "net.middle", F.silu(h + e))
    return F.mse_loss(conv(w, "net.leave", F.silu(h)), noise)


def selective(w, b):
    x, h, rows = b["x"], 0, []
    step = F.softplus(linear(w, "step", x))
    write, read = x @ w["b.weight"].T, x @ w["c.weight"].T
    for t in range(x.shape[1]):
        h = (-step[:, t, :, None] * w["a"].exp()).exp() * h + (step * x)[:, t, :, None] * write[:, t, None]
        rows.append((h * read[:, t, None]).sum(-1))
    return F.mse_loss(torch.stack(rows, 1), b["t"])


def survival(w, b):
    own = [w[f"rnn.{n}_l0"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    h = torch._VF.gru(b["x"], torch.zeros(1, 2, 8).double(), own, True, 1, 0.0, False, False, True)[0]
    risk = torch.sigmoid(linear(w, "last", h))[..., 0]
    quiet = torch.cat([torch.ones(2, 1).double(), (1 - risk).cumprod(1)[:, :-1]], 1)
    return F.mse_loss((quiet * risk).cumsum(1), b["t"])


rms = lambda x, weight: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


def norms(w, b):
    h = F.prelu(F.batch_norm(conv(w, "0", b["x"]), None, None, training=True), w["act.weight"])
    h = F.mish(F.batch_norm(conv(w, "1", h), None, None, w["norm1.weight"], w["norm1.bias"], True))
    h = F.softshrink(F.selu(F.instance_norm(F.conv2d(h, w["2.weight"]))), 0.1).permute(0, 2, 3, 1)
    h = linear(w, "3", F.layer_norm(h, (8, ), w["norm2.weight"]))
    h = h[..., :8] * F.gelu(h[..., 8:]) * F.hardsigmoid(h[..., :8]) + F.glu(h)
    return F.mse_loss(linear(w, "4", rms(h, w["norm3.weight"]).mean((1, 2))), b["t"])


def waves(w, b):
    f = torch.fft.fft(torch.fft.rfft(b["x"])[..., :3], dim=2)
    low = torch.einsum("nchw,cohw->nohw", torch.cat([f[:, :, :3], f[:, :, -3:]], 2), torch.view_as_complex(w["w"]))
    all_modes = torch.zeros(2, 3, 12, 9, dtype=torch.complex128)
    all_modes[:, :, :3, :3], all_modes[:, :, -3:, :3] = low[:, :, :3], low[:, :, 3:]
    return F.mse_loss(torch.fft.irfft2(all_modes, s=(12, 16)), b["t"])


def legendre(degree, order, x):
    """Of NumPy's polynomials, orthonormal on the sphere, with the phase (-1)^order."""
    p = np.polynomial.legendre.Legendre.basis(degree).deriv(order)(x) if order <= degree else 0 * x
    size = math.factorial(degree - order) / math.factorial(degree + order) if order <= degree else 0
    return (-1)**order * (1 - x**2)**(order / 2) * p * math.sqrt((2 * degree + 1) / (4 * math.pi) * size)


def globe(w, b):
    angle = np.pi * (np.arange(16) + 0.5) / 16
    p = torch.tensor(np.array([[legendre(l, m, np.cos(angle)) for m in range(6)] for l in range(6)]))
    area = torch.tensor(2 * np.pi * np.sin(angle) * np.pi / 16)
    f = torch.fft.rfft(b["x"], norm="forward")[..., :6]
    f = torch.einsum("nhm,lmh,h,l->nlm", f, p.cdouble(), area.cdouble(), w["factor"].cdouble())
    f = torch.einsum("nlm,lmh->nhm", f, p.cdouble())
    return F.mse_loss(torch.fft.irfft(f, n=32, norm="forward"), b["t"])


def turned(x, heads):
    x = x.unflatten(-1, (heads, -1)).transpose(1, 2)  # [N, heads, T, E]
    at = torch.arange(10.0).double()[:, None] * 10000.0**(-torch.arange(2).double() / 2)
    turns = torch.polar(torch.ones_like(at), at)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turns).flatten(-2)


def attended(q, k, v, add):
    """Of [N, heads, T, E]; `add` to the scores."""
    return (torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1]**0.5 + add, -1) @ v).transpose(1, 2).flatten(2)


def rotary(w, b):
    h = rms(b["x"], w["norm1.weight"])
    few = [turned(linear(w, "k", h), 2), linear(w, "v", h).unflatten(-1, (2, -1)).transpose(1, 2)]
    k, v = (x.repeat_interleave(2, 1) for x in few)
    later = torch.full((10, 10), -math.inf).double().triu(1)
    h = b["x"] + linear(w, "out", attended(turned(linear(w, "q", h), 4), k, v, later))
    gate, up = linear(w, "up", rms(h, w["norm2.weight"])).chunk(2, -1)
    return F.mse_loss(h + linear(w, "down", F.silu(gate) * up), b["y0"])


def swin(w, b):
    windows = lambda x: x.unfold(-2, 4, 4).unfold(-2, 4, 4).permute(0, 2, 3, 4, 5, 1).reshape(-1, 16, x.shape[1])
    h = windows(b["x"].roll((-2, -2), (2, 3)))
    q, k, v = (linear(w, n, h).unflatten(-1, (2, 4)).transpose(1, 2) for n in "qkv")
    part = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    region = windows((3 * part[:, None] + part)[None, None].expand(2, 1, 8, 8))[..., 0]
    row, column = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    far = lambda x: x.flatten()[:, None] - x.flatten() + 3
    add = w["table"][far(row) * 7 + far(column)].permute(2, 0, 1)[None]
    add = add.masked_fill((region[:, :, None] != region[:, None])[:, None], -math.inf)
    h = attended(q, k, v, add).reshape(2, 2, 2, 4, 4, 8).permute(0, 5, 1, 3, 2, 4).reshape(2, 8, 8, 8)
    return F.mse_loss(b["x"] + h.roll((2, 2), (2, 3)), b["t"])


def missed(w, b):
    p, t = torch.sigmoid(conv(w, "1", conv(w, "0", b["x"]).relu())), b["t"]
    hit, false_alarm, lost = (p * t).sum(), (p * (1 - t)).sum(), ((1 - p) * t).sum()
    return 1 - (hit + 5e-6) / (hit + 0.3 * false_alarm + 0.7 * lost + 5e-6)


def distilled(w, b):
    y = linear(w, "1", linear(w, "0", b["x"]).relu())
    soft = F.kl_div((y / 2).log_softmax(1), (b["teacher"] / 2).softmax(1), reduction="batchmean")
    return F.cross_entropy(y, b["t"]) + 4 * soft


def ranked(w, b):
    return F.l1_loss(linear(w, "1", F.silu(linear(w, "0", b["x"]))).sort(1).values, b["t"].sort(1).values)


def logcosh(w, b):
    return (linear(w, "1", linear(w, "0", b["x"]).tanh()).sinh() - b["t"]).cosh().log().mean()


def names(w, b):
    h = torch.cat([b["x"], b["z"].transpose(1, 2)], 2)
    for i in range(3):
        h = w[f"scale{i}"] * linear(w, f"part.{i}", h).tanh()
    return F.mse_loss(h, b["t"])


def sizes(w, b):
    return F.mse_loss(conv(w, "1", F.gelu(conv(w, "0", b["x"]) * w["map"])), b["t"])


def sun(w, b):
    latitude, day, hour = b["place"][:, 0].deg2rad(), b["place"][:, 1].floor(), torch.fmod(b["place"][:, 2], 24)
    tilt = torch.asin(0.39779 * torch.sin(2 * math.pi * (day - 81) / 365.25))
    height = torch.sin(latitude) * torch.sin(tilt) + torch.cos(latitude) * torch.cos(tilt) * torch.cos(
        math.pi * (hour - 12) / 12)
    light = 24 / math.pi * torch.acos((-torch.tan(latitude) * torch.tan(tilt)).clamp(-1, 1))
    h = torch.cat([b["x"], height.clamp(min=0)[:, None], light[:, None] / 24], 1)
    return F.mse_loss(linear(w, "1", F.gelu(linear(w, "0", h))), b["t"])


def gaps(w, b):
    line = lambda n, x: F.conv1d(x, w[f"{n}.weight"], w[f"{n}.bias"], padding=1)
    seen = torch.isfinite(b["x"])
    h = line("0", torch.cat([b["x"].masked_fill(~seen, 0), seen.double()], 1)).relu()
    return F.mse_loss(line("1", h + (torch.round(4 * h) / 4 - h).detach()), b["t"])


def deformed(w, b):
    """Bilinear interpolation as sums over all pixels; offsets of a tap are down, right, as in torchvision."""
    x = b["x"]
    move, taps = conv(w, "0.offset", x), []
    near = lambda at, n: (1 - (at[..., None] - torch.arange(n)).abs()).clamp(min=0)
    for k in range(9):
        down = move[:, 2 * k] + torch.arange(12.0)[:, None] + k // 3 - 1
        right = move[:, 2 * k + 1] + torch.arange(16.0) + k % 3 - 1
        taps.append(torch.einsum("ncij,nhwi,nhwj->nchw", x, near(down, 12), near(right, 16)))
    h = F.conv2d(torch.cat(taps, 1), w["0.taps.weight"], w["0.taps.bias"])
    return F.mse_loss(conv(w, "1", F.gelu(h)), b["t"])


image = lambda c, n: torch.randn(2, c, n, n)
holes = torch.randn(2, 2, 32)
holes[0, 0, 3:7], holes[1, 1, 5], holes[1, 0, 9] = math.nan, math.inf, -math.inf
batches = {similar: {"x": image(3, 24), "t": image(3, 24).sigmoid()}, sharp: {"x": image(2, 16), "t": image(2, 16)},
           perceptual: {"x": image(3, 16), "t": image(3, 16)}, normed: {"x": image(3, 16), "t": image(1, 16)},
           ctc: {"x": torch.randn(2, 10, 8), "labels": torch.tensor([[1, 1, 3], [5, 2, 5]])},
           variational: {"x": torch.randn(2, 32)}, diffusion: {"x": image(1, 16), "step": torch.rand(2)},
           selective: {"x": torch.randn(2, 40, 6), "t": torch.randn(2, 40, 6)},
           survival: {"x": torch.randn(2, 30, 4), "t": torch.rand(2, 30)},
           norms: {"x": image(3, 8), "t": torch.randn(2, 3)},
           waves: {"x": torch.randn(2, 3, 12, 16), "t": torch.randn(2, 3, 12, 16)},
           globe: {"x": torch.randn(2, 16, 32), "t": torch.randn(2, 16, 32)},
           rotary: {"x": torch.randn(2, 10, 16), "y0": torch.randn(2, 10, 16)},
           swin: {"x": image(8, 8), "t": image(8, 8)},
           missed: {"x": image(1, 16), "t": (image(1, 16) > 0).float()},
           distilled: {"x": torch.randn(2, 10), "teacher": torch.randn(2, 5), "t": torch.tensor([3, 0])},
           ranked: {"x": torch.randn(2, 6), "t": torch.randn(2, 16)},
           logcosh: {"x": torch.randn(2, 6), "t": torch.randn(2, 2)},
           names: {"x": torch.randn(2, 5, 4), "z": torch.randn(2, 4, 5), "t": torch.randn(2, 5, 8)},
           sizes: {"x": torch.randn(2, 2, 12, 20), "t": torch.randn(2, 2, 12, 20)},
           sun: {"x": torch.randn(2, 3), "place": torch.tensor([[52.5, 171.3, 30.2], [-33.9, 10.0, 17.5]]),
                 "t": torch.randn(2, 1)},
           deformed: {"x": torch.randn(2, 3, 12, 16), "t": torch.randn(2, 1, 12, 16)},
           gaps: {"x": holes, "t": torch.randn(2, 1, 32)}}
further = {sizes: ["--data_size=[12,20]"]}
for f, batch in batches.items():
    name = f.__name__
    path = place / f"{name}.dl"
    path.write_text(re.search(rf"```dl file={name}\.dl[^\n]*\n(.*?)```", PAGE, re.S)[1])
    args = ["--local_batch_size=2", *further.get(f, [])]
    ir = place.run("dlc", "compile", path, *args, "--dump=ir")
    shapes = {n: [int(a.split("=")[-1]) for a in axes.split(",")]
              for n, axes in re.findall(r"^ *param \$(\S+)(?: by \S+)? = %\d+ : f32\[(.*?)\]", ir, re.M)}
    weights = {n: torch.randn(shape) * 0.3 for n, shape in shapes.items()}
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {f"{n}.0": v for n, v in batch.items()})
    said = place.run("dlrun", path, *args, f"--expdir={place / name}", "--optimizer=sgd",
                     f"--replay={place / 'b.safetensors'}", f"--init_weights={place / 'w.safetensors'}",
                     f"--save_grads={place / 'g.safetensors'}")
    w = {n: v.double().requires_grad_() for n, v in weights.items()}
    loss = f(w, {n: v.double() if v.is_floating_point() else v for n, v in batch.items()})
    loss.backward()
    got = float(re.search(r'"loss": *([-+.\de]+)', said)[1])
    check(abs(got - loss.item()) < 1e-5 * abs(loss.item()), f"{name}: the loss is {got}, not {loss.item()}")
    grads = load_tensors(place / "g.safetensors")
    for n, v in w.items():
        if v.grad is None:
            check(n not in grads or not grads[n].any(), f"{name}: {n} has no gradient")
        else:
            far = relative(grads[n], v.grad) if n in grads else math.inf
            bound = 2e-4 if f is diffusion else 2e-5  # angles of up to 1000 have six digits in f32
            check(far < bound, f"{name}: the gradient of {n} is {far:.2g} off")
finish()
