"""check_scan.py BUILD [DEVICE...]: cumsum, cumprod and linear_scan next to PyTorch in float64: values, gradients and
gradients of gradients, along each axis, in both directions, of no element, one and many, with zeros among the factors;
in f32 and f64; whole numbers; in 16 bits by `dlc verify`.
"""
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
finish()
