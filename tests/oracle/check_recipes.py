"""check_recipes.py BUILD: losses and modules of the cookbook next to PyTorch in float64: the loss of a step, and the
gradients of all weights. Random numbers are drawn here, too.
"""
import math
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_nets import philox
from oracle_tools import ROOT, Workplace, check, finish, load_tensors, relative, save_tensors, torch

F = torch.nn.functional
place = Workplace(sys.argv[1])
torch.manual_seed(5)
PAGE = (ROOT / "docs/reference/cookbook.md").read_text()
drawn = lambda number, *shape: philox(0, 0, number, math.prod(shape)).reshape(shape).double()
normal = lambda n, *shape: (-2 * (1 - drawn(n, *shape)).log()).sqrt() * (2 * math.pi * drawn(n + 1, *shape)).cos()
conv = lambda w, n, x: F.conv2d(x, w[f"{n}.weight"], w.get(f"{n}.bias"), padding=1)
linear = lambda w, n, x: F.linear(x, w[f"{n}.weight"], w[f"{n}.bias"])


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


image = lambda c, n: torch.randn(2, c, n, n)
batches = {similar: {"x": image(3, 24), "t": image(3, 24).sigmoid()}, sharp: {"x": image(2, 16), "t": image(2, 16)},
           perceptual: {"x": image(3, 16), "t": image(3, 16)}, normed: {"x": image(3, 16), "t": image(1, 16)},
           ctc: {"x": torch.randn(2, 10, 8), "labels": torch.tensor([[1, 1, 3], [5, 2, 5]])},
           variational: {"x": torch.randn(2, 32)}, diffusion: {"x": image(1, 16), "step": torch.rand(2)}}
for f, batch in batches.items():
    name = f.__name__
    path = place / f"{name}.dl"
    path.write_text(re.search(rf"```dl file={name}\.dl[^\n]*\n(.*?)```", PAGE, re.S)[1])
    ir = place.run("dlc", "compile", path, "--local_batch_size=2", "--dump=ir")
    shapes = {n: [int(a.split("=")[-1]) for a in axes.split(",")]
              for n, axes in re.findall(r"^ *param \$(\S+)(?: by \S+)? = %\d+ : f32\[(.*?)\]", ir, re.M)}
    weights = {n: torch.randn(shape) * 0.3 for n, shape in shapes.items()}
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {f"{n}.0": v for n, v in batch.items()})
    said = place.run("dlrun", path, "--local_batch_size=2", f"--expdir={place / name}", "--optimizer=sgd",
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
