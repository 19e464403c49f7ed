#!/usr/bin/env python3
"""A model that `dlc import` wrote, compared with PyTorch.   library_compare.py DLRUN FOLDER MODEL.dl WEIGHTS

FOLDER is library_export.py's. One step on its batch: loss, and all gradients by their norms, against PyTorch's in
float64. Prints one JSON object: loss and grad (the largest differences, relative), those of PyTorch's own float32 as
torch_loss and torch_grad, agrees, unclear. A model agrees where it is within 1e-5, or as near as PyTorch's float32;
where that is off by more than 1e-3 itself (batch norm of two values), the comparison is unclear.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from safetensors import safe_open

TOLERANCE, AS_TORCH, CHAOS = 1e-5, 3, 1e-3


def tensors(path, begin=""):
    with safe_open(path, "pt") as f:
        return {k[len(begin):]: f.get_tensor(k) for k in f.keys() if k.startswith(begin)}


def worst(truth, got, floor):
    """The largest difference of a gradient by its norm; small ones count as a thousandth of all together."""
    if not truth:
        return 0.0, ""
    return max((float((got[k].double() - g.double()).norm() / max(float(g.norm()), floor)), k) for k, g in
               truth.items())


def main():
    dlrun, folder, model, weights = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    truth = tensors(folder / "truth.safetensors")
    want = {k[5:]: v for k, v in truth.items() if k.startswith("grad.")}
    plain = {k[9:]: v for k, v in truth.items() if k.startswith("f32.grad.")}
    batch = next(v.shape[0] for k, v in tensors(folder / "batch.safetensors").items() if k != "t.0")
    with tempfile.TemporaryDirectory(prefix="dlc_test_") as tmp:
        r = subprocess.run([dlrun, model, f"--local_batch_size={batch}", f"--init_weights={weights}",
                            f"--replay={folder / 'batch.safetensors'}", f"--save_grads={tmp}/g", f"--expdir={tmp}/run"],
                           capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
        if r.returncode:
            sys.exit((r.stderr or r.stdout).strip().splitlines()[-1][:300])
        loss = next(json.loads(line)["loss"] for line in r.stdout.splitlines() if line.startswith('{"step"'))
        got = tensors(f"{tmp}/g")
    for names in json.loads((folder / "info.json").read_text()).get("names", []):
        found = next((got[n] for n in names if n in got), None)
        got.update({n: found for n in names if found is not None})
    missing = [k for k in want if k not in got and float(want[k].norm()) > 0]
    if missing:
        sys.exit(f"no gradient of {missing[:3]}")
    for k in want:
        got.setdefault(k, want[k] * 0)
    total = sum(float(g.norm())**2 for g in want.values())**0.5
    exact = float(truth["loss"])
    scale = max(1.0, abs(exact))
    grad, name = worst(want, got, 1e-3 * total)
    torch_grad, _ = worst(want, plain, 1e-3 * total)
    off = abs(loss - exact) / scale
    torch_off = abs(float(truth["f32.loss"]) - exact) / scale
    agrees = off <= max(TOLERANCE, AS_TORCH * torch_off) and grad <= max(TOLERANCE, AS_TORCH * torch_grad)
    print(json.dumps({"loss": off, "grad": grad, "of": name, "torch_loss": torch_off, "torch_grad": torch_grad,
                      "agrees": agrees, "unclear": max(torch_off, torch_grad) > CHAOS}))


if __name__ == "__main__":
    main()
