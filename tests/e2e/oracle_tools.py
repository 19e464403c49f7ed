"""What the end-to-end oracles share: safetensors without a library, running our programs, comparing with PyTorch.

Every oracle is called as `oracle_NAME.py BUILD_DIRECTORY [...]`, counts its checks, and ends with the line
"N passed, N failed". Exit status 77 (skip) where PyTorch or the shared data is absent.
"""
import atexit
import copy
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

# Set on some machines, for another CPU than theirs; and meson's, as in checks.py.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "LD_LIBRARY_PATH"):
    os.environ.pop(name, None)

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

# PyTorch's, and dlrun's: tests that run side by side get one
THREADS = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
torch.set_num_threads(THREADS)
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
DTYPES = {"C64": "<c8", "F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "BOOL": "?"}
passed = failed = 0


def check(ok, what):
    """Counts a check and says what failed, or what was found."""
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(f"{'ok    ' if ok else 'FAILED'} {what}", flush=True)
    return ok


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0 or passed == 0)


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def save_tensors(path, tensors):
    """{name: torch tensor} as safetensors: length, JSON header, raw little-endian data."""
    names = {np.dtype(v): k for k, v in DTYPES.items()}
    header, blobs, at = {}, [], 0
    for key, value in tensors.items():
        blob = np.ascontiguousarray(value.detach().numpy())
        header[key] = {"dtype": names[blob.dtype], "shape": list(value.shape), "data_offsets": [at, at + blob.nbytes]}
        at += blob.nbytes
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for blob in blobs:
            f.write(blob.tobytes())


def load_tensors(path):
    with open(path, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(length))
        data = f.read()
    header.pop("__metadata__", None)
    tensors = {}
    for key, entry in header.items():
        first, last = entry["data_offsets"]
        array = np.frombuffer(data[first:last], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[key] = torch.from_numpy(array.copy())
    return tensors


def relative(got, want):
    """Relative L2 distance, in double precision; infinite where the shapes differ or something is not finite."""
    if got.shape != want.shape or not torch.isfinite(got).all():
        return float("inf")
    got, want = got.double(), want.double()
    norm = want.norm().item()
    return (got - want).norm().item() / norm if norm else (got - want).norm().item()


class Workplace:
    """A temporary directory with its own kernel cache, and our programs run from the project's root."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dlc-oracle-"))
        atexit.register(shutil.rmtree, self.dir, ignore_errors=True)
        self.env = dict(os.environ, DLR_CACHE_DIR=os.environ.get("DLC_TEST_CACHE") or str(self.dir / "cache"),
                        DLR_CACHE_MAX="0", NO_COLOR="1", DLR_DEBUG="brief")  # a profile's ceilings in one round

    def empty_cache(self):
        """A cache of kernels in which nobody else compiles. The compiler's own work is done once for all tests."""
        self.env.update(DLR_CACHE_DIR=str(self.dir / "cache"), CC=f"{self.build}/tests/compile_once cc")

    def __truediv__(self, name):
        return self.dir / name

    def program(self, name):
        found = [p for p in self.build.glob(f"*/{name}") if p.is_file() and os.access(p, os.X_OK)]
        if not found:
            sys.exit(f"oracle: no program {name} under {self.build}: build first")
        return str(found[0])

    def start(self, name, *args, **kwargs):
        args = [*map(str, args)]
        if name == "dlrun" and not any(a.startswith("--threads=") for a in args):
            args.append(f"--threads={THREADS}")
        return subprocess.Popen([self.program(name), *args], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, **{"env": self.env, **kwargs})

    def run(self, name, *args, status=0):
        """Output of a program that must end with `status`; the test ends here when it does not."""
        process = self.start(name, *args)
        output = process.communicate()[0]
        if process.returncode != status:
            print(output[-4000:])
            check(False, f"{name} {' '.join(map(str, args))}: exit status {process.returncode}, not {status}")
            finish()
        return output

    def replay(self, weights, batches, *args, rate=1e-4):
        """Trains from `weights` ({name: tensor}) on `batches` ([(x, t), ...]) at a constant learning rate; None: the
        configuration's.

        Returns the losses by step, the gradients of the first step, and the printed lines' objects."""
        save_tensors(self / "weights.safetensors", weights)
        named = {}
        for i, (x, t) in enumerate(batches):
            named[f"x.{i}"], named[f"t.{i}"] = x, t
        save_tensors(self / "batches.safetensors", named)
        grads = self / "grads.safetensors"
        grads.unlink(missing_ok=True)
        shutil.rmtree(self / "replay", ignore_errors=True)
        rates = [f"--start_lr={rate}", f"--end_lr={rate}"] if rate is not None else []
        output = self.run("dlrun", *args, *rates, f"--expdir={self / 'replay'}",
                          f"--init_weights={self / 'weights.safetensors'}",
                          f"--replay={self / 'batches.safetensors'}", f"--save_grads={grads}")
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{") and '"step"' in line]
        return [line["loss"] for line in lines], load_tensors(grads), lines


def train_in_torch(model, loss_of, batches, rate=1e-4):
    """The same steps by PyTorch with Adam: losses, gradients of the first step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses, grads = [], {}
    for x, t in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x), t)
        loss.backward()
        grads = grads or {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, grads


def gradients_in_double(model, loss_of, batch):
    """The gradients of one batch by PyTorch in float64. Where a value is near a kink (ReLU, |x|), any float32 run
    may fall on the other side, and then differs by a whole term: PyTorch's own does so at 64^3, by 2.8e-3 of a
    gradient."""
    model = copy.deepcopy(model).double()
    x, t = (v.double() for v in batch)
    loss_of(model(x), t).backward()
    return {name: p.grad.float() for name, p in model.named_parameters()}


def compare_training(what, got, want, loss_bound=1e-4, grad_bound=1e-3):
    """Checks losses (relative) and the gradient of every parameter (relative L2) of two trainings."""
    (losses, grads), (want_losses, want_grads) = got[:2], want
    worst = max((abs(a - b) / abs(b) for a, b in zip(losses, want_losses)), default=float("inf"))
    check(len(losses) == len(want_losses) and worst < loss_bound,
          f"{what}: {len(losses)} of {len(want_losses)} losses, worst {worst:.1e} relative (at most {loss_bound:.0e})")
    check(set(grads) == set(want_grads), f"{what}: gradients of {len(want_grads)} parameters, "
          f"differing names: {sorted(set(grads) ^ set(want_grads)) or 'none'}")
    errors = {name: relative(grads[name], want_grads[name]) for name in want_grads if name in grads}
    name = max(errors, key=errors.get)
    check(errors[name] < grad_bound,
          f"{what}: gradients, worst {errors[name]:.1e} of {name} (at most {grad_bound:.0e})")
