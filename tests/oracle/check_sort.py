"""check_sort.py BUILD [DEVICE...]: argsort and sort next to torch.argsort with stable=True, exactly.

Short lines and long ones, of which GPUs merge several tiles, along each axis, both ways; with equal numbers, zeros of
both signs, infinities and NaN; of every type of numbers. Gradients go by the places.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import Workplace, check, finish, load_tensors, save_tensors, torch

os.environ.setdefault("DLR_CUDA_EMULATOR", os.path.join(sys.argv[1], "tests/emulator/libcuda_emulator.so"))
place = Workplace(sys.argv[1])
devices = sys.argv[2:] or ["cpu", "cuda:emulated"]
torch.manual_seed(11)

# Each tensor that is sorted, as an expression of a parameter x and in PyTorch. A quotient by 0 is infinite, or NaN
# where x is 0.
split = "{x} / where(abs({x}) > 0.25, 1.0, 0.0)"
whole = lambda dtype, times: lambda x: x.to(dtype) * times
keys = {"f32": ("{x}", lambda x: x),
        "ties": ("floor(4 * {x})", lambda x: (4 * x).floor()),
        "zeros": ("{x} * 0.0", lambda x: x * 0.0),
        "NaN": (split, lambda x: x / torch.where(x.abs() > 0.25, 1.0, 0.0)),
        "f64": ("({x} as f64) * 1e200", lambda x: x.double() * 1e200),
        "f64, NaN": ("(" + split + ") as f64", lambda x: (x / torch.where(x.abs() > 0.25, 1.0, 0.0)).double()),
        "i32": ("(1000 * {x}) as i32", lambda x: (1000 * x).to(torch.int32)),
        "i64": ("((1000 * {x}) as i64) * 8589934593", lambda x: (1000 * x).to(torch.int64) * 8589934593),
        "bf16": ("{x} as bf16", lambda x: x.bfloat16()),
        "f16": ("{x} as f16", lambda x: x.half())}
shapes = [((3, 17, 5), 1), ((3, 17, 5), 2), ((9, 2, 3), 0), ((1, 64), 1), ((65, 3), 0), ((2, 300), 1), ((7, 130, 3), 1),
          ((1,), 0), ((3, 0, 2), 1), ((0, 4), 1)]
long = [((2, 5001), 1), ((4097, 3), 0), ((9000,), 0)]  # wider digits; three, three and five tiles
cases = [(key, *shape) for key in keys for shape in shapes] + [(key, *shape) for key in ("NaN", "f64", "i64")
                                                               for shape in long] + [("ties", (2, 2048), 1)]


def run(device):
    text = ["model Sorts():", "    input v: f32[N, Y=1]", "    output v", "    loss = sum(v) * 0.0"]
    weights, truth = {}, {}
    for i, (key, sizes, dim) in enumerate(cases):
        x, v, g = torch.randn(sizes), torch.randn(sizes), torch.randn(sizes)
        x = torch.where(torch.rand(sizes) < 0.1, torch.where(x < 0, -0.0, 0.0), x)
        axes = ["A", "B", "C"][:len(sizes)]
        for n, t in ({"x": x, "v": v, "g": g} | ({"h": g} if key == "f32" else {})).items():
            weights[f"{n}{i}"] = t
            text.append(f"    param {n}{i}: f32[{', '.join(f'{n}={s}' for n, s in zip(axes, sizes))}] ~ normal(0, 1)")
        said, f = keys[key]
        descending = i % 2 == 1
        over = f"over={axes[dim]}, descending={'true' if descending else 'false'}"
        order = f"argsort({said.format(x=f'x{i}')}, {over})"
        text.append(f"    loss += sum(g{i} * gather(v{i}, {order}, over={axes[dim]}))")
        places = f(x).argsort(dim=dim, descending=descending, stable=True)
        truth[f"g{i}"] = f"{key} of {sizes} along {dim}: values", v.gather(dim, places)
        truth[f"v{i}"] = f"{key} of {sizes} along {dim}: gradients", torch.zeros(sizes).scatter(dim, places, g)
        if key == "f32":
            text.append(f"    loss += sum(h{i} * sort(x{i}, {over}))")
            truth[f"h{i}"] = f"sort of {sizes} along {dim}", x.sort(dim=dim, descending=descending).values
            truth[f"x{i}"] = f"sort of {sizes} along {dim}: gradients", torch.zeros(sizes).scatter(dim, places, g)
    path = place / "sorts.dl"
    path.write_text("\n".join(text) + "\n")
    save_tensors(place / "w.safetensors", weights)
    save_tensors(place / "b.safetensors", {"v.0": torch.ones(2, 1)})
    place.run("dlrun", path, "--local_batch_size=2", f"--expdir={place / 'run'}",
              f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd",
              f"--replay={place / 'b.safetensors'}", f"--save_grads={place / 'g.safetensors'}", f"--device={device}")
    got = load_tensors(place / "g.safetensors")
    for n, (name, want) in truth.items():
        if want.numel():
            differ = int((got[n] != want).sum())
            check(torch.equal(got[n], want), f"{device}: {name}: {differ} of {want.numel()} differ")


for device in devices:
    run(device)

# 16 bits, and what is made of a sort
path = place / "half.dl"
path.write_text("model Half():\n    input x: f32[N, T=137, E=21]\n    h = x |> linear(9) @l\n"
                "    y = sort(h, over=T) * quantile(h, 0.3, over=T) + median(h, over=E)\n"
                "    output y\n    loss = mean(y**2)\n")
for target, mode in (("cpu", "bf16"), ("cpu", "none"), ("cuda:sm_80:emulated", "bf16")):
    place.run("dlc", "verify", path, "--local_batch_size=7", f"--amp_mode={mode}", f"--target={target}")
finish()
