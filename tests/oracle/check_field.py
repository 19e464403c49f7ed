"""check_field.py BUILD [DEVICE...] [--only=NAME]: the models of models/field next to their PyTorch forms (tests/field)
in float64: predictions, losses of two steps of SGD, the gradients of all parameters, and their names. On the CPU, and
on an emulated GPU; and compiled by NVRTC. Of a share, three models, one of them by NVRTC.
"""
import inspect
import json
import math
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../e2e"), str(HERE / "../field")]
from checks import DRAW, drawn, turn
from export_nets import Net
from oracle_nets import philox
from oracle_tools import ROOT, Workplace, check, finish, load_tensors, relative, save_tensors, torch
from table import TABLE

os.environ.setdefault("DLR_CUDA_EMULATOR", os.path.join(sys.argv[1], "tests/emulator/libcuda_emulator.so"))
place = Workplace(sys.argv[1])
only = [a.partition("=")[2] for a in sys.argv[2:] if a.startswith("--only=")]
devices = [a for a in sys.argv[2:] if not a.startswith("--")] or ["cpu", "cuda:emulated"]
as_pairs = lambda v: torch.view_as_real(v) if v.is_complex() else v
double = lambda v: v.double() if v.is_floating_point() else v


class Draws:
    """What a step draws, op by op (ir/base/philox.h), in place of torch.rand."""

    def __init__(self, step):
        self.step, self.number = step, 0

    def __call__(self, *shape):
        made = philox(0, self.step, self.number, math.prod(shape)).reshape(shape).double()
        self.number += 1
        return made


def widened(net):
    """The network in float64."""
    for p in net.parameters():
        p.data = p.data.to(torch.complex128 if p.is_complex() else torch.float64)
    for b in net.buffers():
        b.data = double(b.data)
    return net


def trained(net, batches):
    """Losses of a step each, and the gradients of the first one."""
    losses, first = [], {}
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)
    for step, batch in enumerate(batches):
        sgd.zero_grad()
        net.rand = Draws(step)
        loss = net.loss(**{n: double(v) for n, v in batch.items()})
        loss.backward()
        losses.append(loss.item())
        first = first or {n: as_pairs(p.grad).clone() for n, p in net.named_parameters()}
        sgd.step()
    return losses, first


def compare(name, row):
    torch.manual_seed(5)
    model, words = ROOT / f"models/field/{name}.dl", row.words(row.small)
    batch_size = f"--local_batch_size={row.samples}"
    net = row.network(row.small)
    for p in net.parameters():  # parameters that begin as 0 or 1, too
        p.data += 0.1 * torch.randn_like(p)
    weights, batches = {n: v.clone() for n, v in net.state_dict().items()}, [net.batch(row.samples) for _ in range(2)]
    save_tensors(place / "w.safetensors", weights)
    torch.save(weights, place / "w.pt")
    save_tensors(place / "b.safetensors", {f"{n}.{i}": v for i, b in enumerate(batches) for n, v in b.items()})

    net = widened(net).eval()
    fed = Net(place, model, *words, batch_size)
    inputs = {n: batches[0][n] for n in inspect.signature(net.forward).parameters}
    want = net(**{n: double(v) for n, v in inputs.items()})
    got = fed.predict(place / "w.pt", inputs, f"--model={model}", *words)
    for i, (a, b) in enumerate(zip(got, want if isinstance(want, tuple) else [want])):
        off = relative(a.double(), b.detach())
        check(a.shape == b.shape and off < row.bound, f"{name}: output {i} of dlrun predict is {off:.2g} off")

    losses, first = trained(net.train(), batches)
    for device in devices:
        said = place.run("dlrun", model, *words, batch_size, f"--expdir={place / name}",
                         f"--init_weights={place / 'w.safetensors'}", "--optimizer=sgd", "--start_lr=0.05",
                         "--end_lr=0.05", f"--replay={place / 'b.safetensors'}",
                         f"--save_grads={place / 'g.safetensors'}", f"--device={device}", "--tf32=false")
        got = [json.loads(line)["loss"] for line in said.splitlines() if line.startswith('{"step"')]
        check(len(got) == 2 and all(abs(a - b) < row.bound * abs(b) for a, b in zip(got, losses)),
              f"{name}, {device}: losses {got}, not {losses}")
        grads = load_tensors(place / "g.safetensors")
        check(sorted(grads) == sorted(first), f"{name}: names that one side lacks: {sorted(set(grads) ^ set(first))}")
        least = 1e-3 * max(v.norm().item() for v in first.values())  # a bias below a norm has no gradient but rounding
        off = {n: (grads[n].double() - v).norm().item() / max(v.norm().item(), least)
               for n, v in first.items() if n in grads}
        worst = max(off, key=off.get)
        check(off[worst] < row.bound, f"{name}, {device}: the gradient of {worst} is {off[worst]:.2g} off")


def compile_for_gpu(name, arch):
    """By NVRTC, where it is installed."""
    row = TABLE[name]
    process = place.start("dlc", "compile", ROOT / f"models/field/{name}.dl", *row.words(row.small), "--json",
                          f"--local_batch_size={row.samples}", f"--target=cuda:{arch}", "-o", place / "gpu.dlp")
    said = process.communicate()[0]
    if process.returncode and "NVRTC" in said:
        return print(f"SKIP: {name} for {arch}: no NVRTC (scripts/install-nvrtc)")
    check(process.returncode == 0, f"{name}: compiled for {arch}: {said[-300:] if process.returncode else 'ok'}")


chosen = [name for i, name in enumerate(TABLE) if name in only or not only and turn(i, len(TABLE) // 3)]
for name in chosen:
    compare(name, TABLE[name])
for number, name in enumerate(drawn(chosen)):
    compile_for_gpu(name, ("sm_80", "sm_90a")[(number + DRAW) % 2])
finish()
