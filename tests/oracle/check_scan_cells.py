"""check_scan_cells.py BUILD [DEVICE...]: `scan` of modules next to loops over steps in PyTorch in float64: outputs,
gradients and two steps of SGD in f32 and f64, forwards and backwards, with several states, scanned tensors and
results, with convolutions, without scanned tensors, within each other and under `grad`. Then 16 bits by `dlc verify`,
evaluation of batches that are not full, and faults.
"""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch

os.environ.setdefault("DLR_CUDA_EMULATOR", os.path.join(sys.argv[1], "tests/emulator/libcuda_emulator.so"))
place = Workplace(sys.argv[1])
devices = sys.argv[2:] or ["cpu", "cuda:emulated"]
torch.manual_seed(11)
nn, F = torch.nn, torch.nn.functional
roundoff = {"f32": 5e-6, "f64": 1e-12}
torch_type = {"f32": torch.float32, "f64": torch.float64}

TEXT = """
module GRU(n)(x, h):
    r = sigmoid((x |> linear(n) @xr) + (h |> linear(n) @hr))
    z = sigmoid((x |> linear(n) @xz) + (h |> linear(n) @hz))
    m = tanh((x |> linear(n) @xm) + r * (h |> linear(n) @hm))
    return (1 - z) * m + z * h
module ConvLSTM(n)(x, h, c):
    g = cat(x, h, over=C) |> conv(4 * n, 3, pad=1) @gates
    next = sigmoid(g[C=n:2*n]) * c + sigmoid(g[C=0:n]) * tanh(g[C=3*n:4*n])
    return [sigmoid(g[C=2*n:3*n]) * tanh(next), next]
module Pair(n)(x, k, h, c):
    a = tanh((x |> linear(n) @x) + h * k)
    return [a |> linear(2) @y, sum(a * a, over=E), a, 0.9 * c + a]
module Roll(n)(h): return [h |> linear(2) @y, tanh(h |> linear(n) @h)]
module Inner(n)(u, h): return tanh(u * 0.7 + (h |> linear(n) @h))
module Outer(n)(x, h):
    rows, last = scan(Inner(n) @inner, x, h, over=K)
    return [rows, last * 0.5 + h]
module Decay(k)(x, h): return h * k + x

model Cells():
    input x: TYPE[N, T=7, E=5]
    input k: TYPE[N, T=7, E=6]
    input p: TYPE[N, T=4, C=2, H=5, W=6]
    input q: TYPE[N, T=5, K=3, E=4]
    param s0: TYPE[E=6] ~ normal(0, 1)
    zeros = expand(0.0, N=N, E=6) as TYPE
    y, h = scan(GRU(6) @gru, x, zeros, over=T)
    b, g = scan(GRU(6) @back, x, zeros + s0, over=T, reverse=true)
    e, s, eh, ec = scan(Pair(6) @pair, [x, k], [h, g], over=T)
    black = expand(0.0, N=N, C=3, H=5, W=6) as TYPE
    v, w, c = scan(ConvLSTM(3) @conv, p, [black, black], over=T)
    r, l = scan(Roll(6) @roll, none, g, over=S, steps=9)
    o, m = scan(Outer(4) @outer, q, q[T=0, K=0], over=T)
    d, f = scan(Decay(0.5), x[T=0:1], x[T=6], over=T)
    loss = (LOSS) as f32
    n = grad(sum(y * y) + sum(h), x)
    loss += sum(n * n) as f32
    output y
    output v
"""

RESULTS = ["y", "h", "b", "g", "e", "s", "eh", "ec", "v", "w", "c", "r", "l", "o", "m", "d", "f"]


class Linears(nn.Module):
    """Linear layers by name: name=(in, out)."""

    def __init__(self, **sizes):
        super().__init__()
        for name, size in sizes.items():
            self.add_module(name, nn.Linear(*size))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        gates = {f"{a}{b}": (n, 6) for a, n in (("x", 5), ("h", 6)) for b in "rzm"}
        self.gru, self.back, self.pair = Linears(**gates), Linears(**gates), Linears(x=(5, 6), y=(6, 2))
        self.roll, self.outer, self.conv = Linears(y=(6, 2), h=(6, 6)), nn.Module(), nn.Module()
        self.outer.inner = Linears(h=(4, 4))
        self.conv.gates = nn.Conv2d(5, 12, 3, padding=1)
        self.s0 = nn.Parameter(torch.randn(6))

    @staticmethod
    def scan(step, xs, states, reverse=False, steps=0):
        """Slices along axis 1; step returns stacked values and then states."""
        n, out = xs[0].shape[1] if xs else steps, []
        for t in range(n)[::-1 if reverse else 1]:
            made = step(*[x[:, t] for x in xs], *states)
            out.append(made[:len(made) - len(states)] or made[:1])
            states = made[len(made) - len(states):]
        return [torch.stack(o[::-1] if reverse else o, 1) for o in zip(*out)] + list(states)

    @staticmethod
    def gru_step(g):
        def step(x, h):
            r, z = torch.sigmoid(g.xr(x) + g.hr(h)), torch.sigmoid(g.xz(x) + g.hz(h))
            return [(1 - z) * torch.tanh(g.xm(x) + r * g.hm(h)) + z * h]
        return step

    def pair_step(self, x, k, h, c):
        a = torch.tanh(self.pair.x(x) + h * k)
        return [self.pair.y(a), (a * a).sum(-1), a, 0.9 * c + a]

    def conv_step(self, x, h, c):
        i, f, o, u = self.conv.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
        return [torch.sigmoid(o) * torch.tanh(c), c]

    def outer_step(self, x, h):
        inner = self.outer.inner
        rows, last = self.scan(lambda u, g: [torch.tanh(u * 0.7 + inner.h(g))], [x], [h])
        return [rows, last * 0.5 + h]

    def forward(self, x, k, p, q):
        n, zero = len(x), x.new_zeros
        made = self.scan(self.gru_step(self.gru), [x], [zero(n, 6)])
        h = made[1]
        made += self.scan(self.gru_step(self.back), [x], [self.s0.expand(n, 6)], reverse=True)
        g = made[3]
        made += self.scan(self.pair_step, [x, k], [h, g])
        made += self.scan(self.conv_step, [p], [zero(n, 3, 5, 6)] * 2)
        made += self.scan(lambda a: [self.roll.y(a), torch.tanh(self.roll.h(a))], [], [g], steps=9)
        made += self.scan(self.outer_step, [q], [q[:, 0, 0]])
        return made + self.scan(lambda a, b: [b * 0.5 + a], [x[:, 0:1]], [x[:, 6]])


def loss_of(net, batch):
    x = batch["x"].requires_grad_()
    made = net(x, batch["k"], batch["p"], batch["q"])
    loss = sum((torch.sin(v * (i + 1))).sum() for i, v in enumerate(made))
    n, = torch.autograd.grad((made[0]**2).sum() + made[1].sum(), x, create_graph=True)
    return loss + (n**2).sum(), made


def run(dtype, device):
    net, n = Cells(), 4 # slices of p fill cache lines, so that they lie as the convolution reads them
    path, rate = place / f"cells_{dtype}.dl", 0.01
    terms = " + ".join(f"sum(sin({v} * {i + 1}))" for i, v in enumerate(RESULTS))
    path.write_text(TEXT.replace("LOSS", terms).replace("TYPE", dtype))
    batches = [{"x": torch.randn(n, 7, 5), "k": torch.randn(n, 7, 6), "p": torch.randn(n, 4, 2, 5, 6),
                "q": torch.randn(n, 5, 3, 4)} for _ in range(2)]
    given = torch_type[dtype]
    save_tensors(place / "w.safetensors", {a: b.detach().to(given) for a, b in net.named_parameters()})
    fed = {f"{a}.{i}": v.to(given) for i, b in enumerate(batches) for a, v in b.items()}
    save_tensors(place / "b.safetensors", fed)
    out = place.run("dlrun", path, f"--local_batch_size={n}", f"--expdir={place / ('run' + dtype + device[:3])}",
                    f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd", f"--start_lr={rate}",
                    f"--end_lr={rate}", "--tf32=false", f"--replay={place / 'b.safetensors'}",
                    f"--save_grads={place / 'g.safetensors'}", f"--device={device}")
    net, losses, first = net.double(), [], {}
    sgd = torch.optim.SGD(net.parameters(), lr=rate)
    for batch in batches:
        sgd.zero_grad()
        loss, _ = loss_of(net, {a: v.to(given).double() for a, v in batch.items()})
        loss.backward()
        losses.append(loss.item())
        first = first or {a: b.grad.clone() for a, b in net.named_parameters()}
        sgd.step()
    got = [json.loads(line)["loss"] for line in out.splitlines() if line.startswith('{"step"')]
    check(len(got) == 2 and all(abs(a - b) < 1e-5 * abs(b) for a, b in zip(got, losses)),
          f"{device} {dtype}: losses {got}, not {losses}")
    grads = load_tensors(place / "g.safetensors")
    for name, want in first.items():
        off = relative(grads[name].double(), want)
        check(off < 20 * roundoff[dtype], f"{device} {dtype}: the gradient of {name} is {off:.2g} off")


for device in devices:
    for dtype in ("f64", "f32"):
        run(dtype, device)

# 16 bits: every launch within what rounding allows, of states in f32 and in 16 bits
path = place / "half.dl"
path.write_text("""
module Gate(n)(x, h):
    z = sigmoid((x |> linear(n) @x) + (h |> linear(n) @h))
    return z * tanh(x |> linear(n) @m) + (1 - z) * h
module Conv(n)(p, h): return tanh(cat(p, h, over=C) |> conv(n, 3, pad=1) @c)
module Mix(k)(x, h): return tanh(x * k + h)
model Half():
    input x: f32[N, T=9, E=21]
    input p: f32[N, T=4, C=16, H=6, W=6]
    y, h = scan(Gate(13) @gate, x, expand(0.0, N=N, E=13), over=T)
    z, g = scan(Conv(16) @conv, p, expand(0.0, N=N, C=16, H=6, W=6), over=T, reverse=true)
    v, w = scan(Mix(0.5), x as bf16, expand(0.0, N=N, E=21) as bf16, over=T)
    output y
    output z
    loss = mean(y**2) + mean(h) + mean(z * z) + (mean(w) as f32)
""")
for target, mode in (("cpu", "bf16"), ("cpu", "fp16"), ("cpu", "none"), ("cuda:sm_80:emulated", "bf16")):
    place.run("dlc", "verify", path, "--local_batch_size=7", f"--amp_mode={mode}", f"--target={target}")

# the compiler's work does not grow with the steps: as many kernels, whose launches are linear
counts = {}
for steps in (50, 100, 150):
    path = place / f"steps{steps}.dl"
    path.write_text(f"module Cell(n)(x, h): return tanh((x |> linear(n) @x) + (h |> linear(n) @h))\n"
                    f"model Steps():\n    input x: f32[N, T={steps}, E=16]\n"
                    "    y, h = scan(Cell(16) @cell, x, x[T=0], over=T)\n    output h\n    loss = mean(h**2)\n")
    plan = place.run("dlc", "compile", path, "--local_batch_size=8", "--dump=kernel")
    launches = place.run("dlc", "compile", path, "--local_batch_size=8").split("MiB of traffic, ")[1].split()[0]
    counts[steps] = (plan.count("\nkernel @"), int(launches.replace(",", "")))
kernels, launches = zip(*counts.values())
check(len(set(kernels)) == 1 and launches[2] - launches[1] == launches[1] - launches[0] > 50,
      f"kernels {kernels}, launches {launches}")

# ranks that share the samples do what one does
place.run("dlc", "simulate-ranks", place / "steps50.dl", "--ranks=2", "--global_batch_size=8")

# ten samples of validation, in whole batches of 2 and in a last batch of 8 that holds 2 of them
for name, shape in ("x", (50, 5, 16)), ("t", (50, 16)):
    np.save(place / f"{name}.npy", torch.randn(shape).numpy())
(place / "part.dl").write_text("module Cell(n)(x, h): return tanh((x |> linear(n) @x) + (h |> linear(n) @h))\n"
                               "model Part():\n    input x: f32[N, T=5, E=16]\n    target t: f32[N, E=16]\n"
                               "    y, h = scan(Cell(16) @cell, x, x[T=0], over=T)\n    output h\n"
                               "    loss = mean((h - t)**2) + 0.1 * mean(y**2)\n")
(place / "part.yaml").write_text(f"""part:
  model: {place / "part.dl"}
  data: {{inputs: {{x: {place / "x.npy"}}}, targets: {{t: {place / "t.npy"}}}, split: {{valid: 0.2}}}}
  num_epochs: 1
  lr: 0
""")
means = [place.run("dlrun", place / "part.yaml", f"--global_batch_size={n}",
                   f"--run_dir={place / f'part{n}'}").split("Avg val loss=")[1].split()[0] for n in (2, 8)]
check(means[0] == means[1], f"validation in batches of 2 and 8: {means}")

# faults, at their place
FAULTS = {
    "scan(Cell(4) @c, x, expand(0.0, N=N, E=5), over=T)": "the cell makes f32[N=2, E=4] of a state that is f32[N=2",
    "scan(x |> linear(4) @l, x, x[T=0], over=T)": "'cell' must be a module or a layer that is not applied yet",
    "scan(Cell(4) @c, x, 0, over=T)": "'start' must be a tensor, or a list of tensors, not the whole number 0",
    "scan(Cell(4) @c, x, x, over=T)": "a state has the axis of the steps, T",
    "scan(Cell(4) @c, x, x[T=0], over=U)": "'x' has no axis U",
    "scan(Cell(4) @c, [x, x], x[T=0], over=T)": "'Cell' is applied to 2 tensors, and the scan has 3",
    "scan(Cell(4) @c, [x, s], x[T=0], over=T)": "T has 6 elements here, and there are 5 steps",
    "scan(Draws(4) @c, x, x[T=0], over=T)": "the cell has dropout (line 3), which draws random numbers",
    "scan(Counts(4) @c, x, x[T=0], over=T)": "the cell has batch_norm (line 4), which updates its statistics",
    "scan(Roll(4) @c, none, x[T=0], over=S)": "without a tensor to scan, 'steps' says how many there are",
    "scan(Cell(4) @c, x, [x[T=0], x[T=1]], over=T)": "'Cell' is applied to 2 tensors, and the scan has 3",
    "scan(Pair(4) @c, x, [x[T=0], x[T=1]], over=T)": "the cell returns 1 value for 2 states",
    "scan(Keeps(4) @c, x, x[T=0], over=T)": "the cell returns f32[N=2, E=4, T=3], which has the axis of the steps",
    "scan(Three(4) @c, x, x[T=0], over=T)": "the cell returns the whole number 3, and not a tensor",
}
for call, words in FAULTS.items():
    path = place / "fault.dl"
    path.write_text(f"""module Cell(n)(x, h): return tanh((x |> linear(n) @a) + (h |> linear(n) @b))
module Roll(n)(h): return h |> linear(n) @b
module Draws(n)(x, h): return (x + h) |> dropout(0.5)
module Counts(n)(x, h): return (x + h) |> batch_norm @b
module Pair(n)(x, h, c): return h
module Keeps(n)(x, h): return [expand(x, T=3), h]
module Three(n)(x, h): return 3
model Fault():
    input x: f32[N, T=5, E=4]
    input s: f32[N, T=6, E=4]
    y, h = {call}
    output y
    loss = mean(y)
""")
    out = place.run("dlc", "check", path, status=3)
    check(words in out and "fault.dl:11:" in out, f"{call}: {out.splitlines()[0]}")
finish()
