"""check_scan.py BUILD [DEVICE...]: cumsum, cumprod and linear_scan next to PyTorch in float64: values, gradients and
gradients of gradients, along each axis, in both directions, of no element, one and many, with zeros among the factors;
in f32 and f64; whole numbers; in 16 bits by `dlc verify`. Then models/field/mamba.dl, two steps of training.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch

os.environ.setdefault("DLR_CUDA_EMULATOR", os.path.join(sys.argv[1], "tests/emulator/libcuda_emulator.so"))
place = Workplace(sys.argv[1])
devices = sys.argv[2:] or ["cpu", "cuda:emulated"]
torch.manual_seed(7)
roundoff = {"f32": 2e-6, "f64": 1e-13}
torch_type = {"f32": torch.float32, "f64": torch.float64}


def scan(a, b, dim, reverse):
    h, steps = None, []
    for x, y in list(zip(a.unbind(dim), b.unbind(dim)))[::-1 if reverse else 1]:
        h = y if h is None else x * h + y
        steps.append(h)
    return torch.stack(steps[::-1] if reverse else steps, dim) if steps else b * a


def cumulative(kind):
    def f(x, dim, reverse, exclusive):
        x = x.flip(dim) if reverse else x
        if exclusive and x.shape[dim]:
            first = torch.full_like(x.narrow(dim, 0, 1), kind == "cumprod")
            x = torch.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
        y = getattr(x, kind)(dim)
        return y.flip(dim) if reverse else y
    return f


# kind, sizes of x, axis, element type, options
cases = [(kind, sizes, dim, "f32", dict(reverse=i % 2 == 1, exclusive=i % 3 == 2))
         for kind in ("cumsum", "cumprod", "linear_scan")
         for i, (sizes, dim) in enumerate([((3, 17, 5), 1), ((3, 17, 5), 2), ((9, 2, 3), 0), ((1, 365), 1),
                                           ((365, 1), 0), ((365, 40), 0), ((40, 33), 1), ((6, 1, 2), 1),
                                           ((3, 0, 2), 1), ((0, 4), 1), ((7, 70), 0), ((2, 5, 1100), 1),
                                           ((37, 64), 1), ((5,), 0)])]
cases += [(kind, sizes, dim, "f64", dict(reverse=reverse, exclusive=False))
          for kind in ("cumsum", "cumprod", "linear_scan") for reverse in (False, True)
          for sizes, dim in (((5, 19, 3), 1), ((6, 30), 1), ((11, 20), 0))]
cases += [(kind, (10000, 2), 0, "f64", dict(reverse=False, exclusive=False)) for kind in ("cumsum", "linear_scan")]


def run(device):
    text = ["model Scans():", "    input v: f32[N, Y=1]", "    output v", "    loss = sum(v) * 0.0"]
    weights, truth = {}, []
    for i, (kind, sizes, dim, dtype, options) in enumerate(cases):
        x = torch.randn(sizes).to(torch_type[dtype])
        a = torch.rand(sizes).to(torch_type[dtype])
        if kind == "cumprod":  # of size 1 or so, with a zero in every third line or so
            x = torch.where(x < 0, -1.0, 1.0).to(x.dtype) * (1 + (x.abs() - 0.83) / (10 + sizes[dim] / 10))
            x[torch.rand(sizes) < 1 / (3 * max(sizes[dim], 1))] = 0
        axes = ["A", "B", "C"][:len(sizes)]
        of = ", ".join(f"{n}={s}" for n, s in zip(axes, sizes))
        g = torch.randn(sizes).to(torch_type[dtype])
        names = {"x": x, "g": g} | ({"a": a} if kind == "linear_scan" else {})
        for n, v in names.items():
            weights[f"{n}{i}"] = v
            text.append(f"    param {n}{i}: {dtype}[{of}] ~ normal(0, 1)")
        if kind == "linear_scan":
            options = dict(reverse=options["reverse"])
        said = "".join(f", {n}=true" for n, on in options.items() if on)
        call = f"{kind}({'a%d, ' % i if kind == 'linear_scan' else ''}x{i}, over={axes[dim]}{said})"
        # the gradient of its first derivative's square is a second one
        twice = i % 2 == 0 and max(sizes, default=0) < 400
        text.append(f"    y{i} = {call}")
        text.append(f"    l{i} = sum(g{i} * y{i})")
        text.append(f"    loss += l{i}" + (" as f32" if dtype == "f64" else ""))
        if twice:
            text.append(f"    d{i} = grad(sum(sin(y{i})), x{i})")
            text.append(f"    loss += sum(d{i}**2)" + (" as f32" if dtype == "f64" else ""))
        leaves = {n: v.double().requires_grad_() for n, v in names.items()}
        xs, gs = leaves["x"], leaves["g"]
        y = (scan(leaves["a"], xs, dim, **options) if kind == "linear_scan" else
             cumulative(kind)(xs, dim, **options))
        loss = (gs * y).sum()
        if twice:
            d, = torch.autograd.grad(y.sin().sum(), xs, create_graph=True)
            loss = loss + (d**2).sum()
        of_loss = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        truth.append((f"{call} of {sizes}", dtype, {f"{n}{i}": w for n, w in zip(leaves, of_loss)}))
    path = place / "scans.dl"
    path.write_text("\n".join(text) + "\n")
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {"v.0": torch.ones(2, 1)})
    place.run("dlrun", path, "--local_batch_size=2", f"--expdir={place / 'run'}",
              f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd", "--tf32=false",
              f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}", f"--device={device}")
    got = load_tensors(place / "g.safetensors")
    for name, dtype, wants in truth:
        for n, want in wants.items():
            if want is None or not want.numel():
                continue
            off = relative(got[n].double(), want)
            check(off < 20 * roundoff[dtype], f"{device}: {name}: the gradient of {n} is {off:.2g} off")


for device in devices:
    run(device)

# 16 bits, and whole numbers: every launch within what rounding allows
path = place / "half.dl"
path.write_text("model Half():\n    input x: f32[N, T=37, E=21]\n    h = x |> linear(9) @l\n"
                "    y = linear_scan(sigmoid(h), h, over=T) + cumprod(tanh(h), over=E, reverse=true)\n"
                "    z = cumsum(cumprod((x > 0) as i64, over=T), over=E)\n"
                "    z += cumsum((x > 0) as i32, over=E, reverse=true)\n"
                "    y = y + mean(z) + cumsum((h as bf16), over=T) as f32\n"
                "    output y\n    loss = mean(y**2)\n")
for target, mode in (("cpu", "bf16"), ("cpu", "fp16"), ("cpu", "none"), ("cuda:sm_80:emulated", "bf16")):
    place.run("dlc", "verify", path, "--local_batch_size=7", f"--amp_mode={mode}", f"--target={target}")


# models/field/mamba.dl: two steps of SGD next to the equations of the paper
nn, F = torch.nn, torch.nn.functional


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight


class Mixer(nn.Module):
    def __init__(self, width, states, rank, taps):
        super().__init__()
        inner = 2 * width
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, taps, padding=taps - 1, groups=inner)
        self.x_proj = nn.Linear(inner, rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        u, gate = self.in_proj(x).chunk(2, -1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[:, :, :x.shape[1]].transpose(1, 2))
        rank, states = self.dt_proj.in_features, self.A_log.shape[1]
        dt, b, c = self.x_proj(u).split([rank, states, states], -1)
        dt = F.softplus(self.dt_proj(dt))
        h, steps = 0, []
        for t in range(x.shape[1]):
            keep = torch.exp(-dt[:, t, :, None] * self.A_log.exp())
            h = keep * h + (dt[:, t] * u[:, t])[:, :, None] * b[:, t, None]
            steps.append((h * c[:, t, None]).sum(-1))
        return self.out_proj((torch.stack(steps, 1) + self.D * u) * F.silu(gate))


class Mamba(nn.Module):
    def __init__(self, width, layers, states, taps, vocabulary):
        super().__init__()
        self.backbone = nn.Module()
        self.backbone.embedding = nn.Embedding(vocabulary, width)
        self.backbone.layers = nn.ModuleList()
        for _ in range(layers):
            layer = nn.Module()
            layer.norm, layer.mixer = Norm(width), Mixer(width, states, max(width // 16, 1), taps)
            self.backbone.layers.append(layer)
        self.backbone.norm_f, self.lm_head = Norm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        h = self.backbone.embedding(x)
        for layer in self.backbone.layers:
            h = h + layer.mixer(layer.norm(h))
        return self.lm_head(self.backbone.norm_f(h))


sizes = {"width": 32, "layers": 2, "states": 5, "taps": 4, "vocabulary": 11}
net, length = Mamba(**sizes), 19
state = {n: p.detach().clone() for n, p in net.named_parameters()}
batch = {f"{n}.{i}": torch.randint(0, 11, (3, length)) for i in range(2) for n in ("x", "t")}
save_tensors(place / "mamba.safetensors", state), save_tensors(place / "words.safetensors", batch)
net, losses, first = net.double(), [], {}
sgd = torch.optim.SGD(net.parameters(), lr=0.5)
for i in range(2):
    sgd.zero_grad()
    loss = F.cross_entropy(net(batch[f"x.{i}"]).flatten(0, 1), batch[f"t.{i}"].flatten())
    loss.backward()
    losses.append(loss.item())
    first = first or {n: p.grad.clone() for n, p in net.named_parameters()}
    sgd.step()
for device in devices:
    out = place.run("dlrun", "models/field/mamba.dl", "--local_batch_size=3", f"--length={length}",
                    *(f"--{n}={v}" for n, v in sizes.items()), f"--expdir={place / 'mamba'}",
                    f"--init_weights={place / 'mamba.safetensors'}", "--optimizer=sgd", "--start_lr=0.5",
                    "--end_lr=0.5", f"--replay={place / 'words.safetensors'}",
                    f"--save_grads={place / 'g.safetensors'}", f"--device={device}", "--tf32=false")
    got = [json.loads(line)["loss"] for line in out.splitlines() if line.startswith('{"step"')]
    check(len(got) == 2 and all(abs(a - b) < 1e-5 * abs(b) for a, b in zip(got, losses)),
          f"{device}: mamba.dl: losses {got}, not {losses}")
    grads = load_tensors(place / "g.safetensors")
    worst = max(relative(grads[n].double(), want) for n, want in first.items())
    check(worst < 2e-5, f"{device}: mamba.dl: gradients are {worst:.2g} off")
finish()
