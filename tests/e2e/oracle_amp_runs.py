#!/usr/bin/env python3
"""Checkpoints of mixed precision: runs that were killed and resumed, changed in mode, loaded by PyTorch, predicted
with.

oracle_amp_runs.py BUILD

fp16's, with the scaler's state, are in oracle_scaler.py; float32's in check_dlrun.py.
"""
import json
import signal
import struct
import sys

from oracle_tools import Workplace, check, finish, load_tensors, np, relative, skip, torch

try:
    import h5py
except ImportError as missing:
    skip(f"{missing} (scripts/install-packages test)")

from torch import nn

ENDLESS = 100000  # epochs
TEXT = """
model Field():
    input  x: f32[N, C=2, H=12, W=16]
    target t: f32[N, C=2, H, W]
    y = x |> conv(16, 3, pad=1) @a |> group_norm(4) @norm |> gelu |> conv(2, 3, pad=1) @b
    output y
    loss = mean((y - t)**2)
"""


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(2, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x):
        return self.b(nn.functional.gelu(self.norm(self.a(x))))


def options(place, run, mode, epochs, *more):
    return [place / "field.dl", f"--yaml_config={place / 'models.yaml'}", "--data_loader_config=synthetic",
            "--local_batch_size=4",
            "--Nsamples=800", "--Nsamples_val=8", "--lr_schedule=none", "--lr=1e-3",
            f"--run_dir={place / 'runs'}/{run}",
            f"--amp_mode={mode}", f"--num_epochs={epochs}", *more]


def newest(place, run):
    """The bytes of a run's newest checkpoint."""
    return {p.name: p.read_bytes() for p in (place / "runs" / run / "checkpoints/last").glob("*.safetensors")}


def state(place, run):
    return json.loads((place / "runs" / run / "checkpoints/last/state.json").read_text())


def stopped(place, mode):
    """Stopped within an epoch, killed later, at any place: the bits of a run that never stopped."""
    run, metrics = f"{mode}_parts", place / "runs" / f"{mode}_parts" / "metrics.jsonl"
    process = place.start("dlrun", *options(place, run, mode, ENDLESS))
    for line in process.stdout:
        if "Starting Training Loop" in line:
            process.send_signal(signal.SIGUSR1)
    check(process.wait() == 75 and state(place, run)["position"] > 0,
          f"{mode}: stopped within an epoch: {state(place, run)['position']} batches")
    process = place.start("dlrun", *options(place, run, mode, ENDLESS, "--resume"))
    for line in process.stdout:
        if metrics.exists() and metrics.read_text().count("\n") >= 3:
            process.kill()
    check(process.wait() == -signal.SIGKILL, f"{mode}: killed")
    epochs = state(place, run)["epoch"] + 2
    place.run("dlrun", *options(place, run, mode, epochs, "--resume"))
    place.run("dlrun", *options(place, mode, mode, epochs))
    whole, parts = newest(place, mode), newest(place, run)
    check(whole and whole == parts, f"{mode}: the same bits after {epochs} epochs: {sorted(whole)}")


def types_of(data):
    header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    return {k: v["dtype"] for k, v in header.items() if k != "__metadata__"}


def crosses(place):
    """A checkpoint of bf16 is float32's: for PyTorch, and to go on from in float32, as float32's is in bf16."""
    files = newest(place, "bf16")
    types = {k: v for data in files.values() for k, v in types_of(data).items()}
    others = {k for k, v in types.items() if v not in ("F32", "I64")}
    check(not others and set(types_of(files["model.safetensors"])) == set(Field().state_dict()),
          f"in the files is float32: {sorted(types)[:4]}, {others}")
    check(set(files) == set(newest(place, "none")), "the files are float32's")
    check(files["model.safetensors"] != newest(place, "none")["model.safetensors"], "but bf16 has learned otherwise")
    for first, then in (("bf16", "none"), ("none", "bf16")):
        epochs, before = state(place, first)["epoch"], load_tensors(place / "runs" / first /
                                                                    "checkpoints/last/model.safetensors")
        place.run("dlrun", *options(place, first, then, epochs + 1, "--resume"))
        after = load_tensors(place / "runs" / first / "checkpoints/last/model.safetensors")
        check(state(place, first)["epoch"] == epochs + 1 and all(torch.isfinite(v).all() for v in after.values()),
              f"{first} goes on in {then}")
        check(any((after[k] != before[k]).any() for k in before), "and learns")


def predicted(place):
    """From the run of bf16, its last checkpoint, next to PyTorch's float32 and float64."""
    net = Field()
    net.load_state_dict(load_tensors(place / "runs/bf16/checkpoints/last/model.safetensors"), strict=True)
    x = np.random.default_rng(5).standard_normal((3, 2, 12, 16)).astype("f4")
    with h5py.File(place / "x.h5", "w") as file:
        file["x"] = x
    with torch.no_grad():
        want = net.double()(torch.from_numpy(x).double())
    for mode, bound in (("bf16", 2e-2), ("none", 1e-5)):
        out = place / f"y_{mode}.h5"
        place.run("dlrun", "predict", place / "runs/bf16", place / "x.h5", "--checkpoint=last", f"--amp_mode={mode}",
                  "-o", out)
        with h5py.File(out, "r") as file:
            found = relative(torch.from_numpy(file["y"][:]), want)
        check(found <= bound,
              f"predicted with --amp_mode={mode}: {found:.1e} from PyTorch in float64 (at most {bound:.0e})")


def main(build):
    place = Workplace(build)
    (place / "models.yaml").write_text("base: {}\n")
    (place / "field.dl").write_text(TEXT.lstrip())
    for mode in "none", "bf16":
        stopped(place, mode)
    crosses(place)
    predicted(place)
    finish()


main(*sys.argv[1:])
