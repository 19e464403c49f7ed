#!/usr/bin/env python3
"""A model that `dlc import` wrote, compared with PyTorch.   library_compare.py BUILD FOLDER MODEL.dl WEIGHTS

FOLDER is library_export.py's. The model is computed in float64: its text, weights and batch with this type in place of
float32. One training step and a prediction, against PyTorch's in float64: the loss, all gradients by their norms (a
small one counts as a thousandth of all together), and the outputs by the largest number. A model agrees where all are
within 1e-5. Prints one JSON object: loss, grad and output (the largest differences), of (which gradient), agrees, and
step, where PyTorch's was timed, the time of a step in float32 as a multiple of it, both with one thread.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from safetensors import safe_open
from safetensors.torch import save_file

TOLERANCE = 1e-5


def tensors(path, begin=""):
    with safe_open(path, "pt") as f:
        return {k[len(begin):]: f.get_tensor(k) for k in f.keys() if k.startswith(begin)}


def doubled(path, to):
    found = {k: v.double() if v.is_floating_point() else v for k, v in tensors(path).items()}
    save_file(found, to)
    return found


def doubled_text(text):
    """What a model declares, counts out or repeats of a number is float32 in the language, whatever its inputs are."""
    text = re.sub(r"(?m)^( *(?:param|buffer) [^:\n]+: )\[", r"\1f64[", text)
    text = re.sub(r"\blinspace\([^()]*\) as \[\w+\]", r"\g<0> as f64", re.sub(r"\bf32\b", "f64", text))
    # an embedding's numbers are whole; one that is bound is f64 where it is applied
    for bound in re.findall(r"(?m)^ *(\w+) = embedding\(", text):
        text = re.sub(rf"\|> {bound}\b", r"\g<0> as f64", text)
    text = re.sub(r"(?<!= )\bembedding\([^()]*\)(?: @[\w.{}]+)?", r"\g<0> as f64", text)
    return re.sub(r"\bexpand\(-?[0-9.e+-]+,[^()]*\)", r"(\g<0> as f64)", text)


def run(*args):
    r = subprocess.run(list(map(str, args)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
    if r.returncode:
        sys.exit((r.stderr or r.stdout).strip().splitlines()[-1][:300])
    return r.stdout


def worst(truth, got, floor):
    """The largest difference of a gradient by its norm."""
    if not truth:
        return 0.0, ""
    off = {k: float((got[k].double() - g.double()).norm() / max(float(g.norm()), floor)) for k, g in truth.items()}
    name = max(off, key=lambda k: (off[k] != off[k], off[k]))
    return off[name], name


def step_time(build, model, weights, info, batch):
    """Of the model as it stands, relative to PyTorch's."""
    out = run(build / "cli/dlc", "bench", model, f"--local_batch_size={batch}", f"--init_weights={weights}",
              "--threads=1", "--steps=5", "--json")
    return json.loads(out)["step_ms"] / 1000 / info["torch_step_s"]


def predict(tmp, command, n):
    """The outputs of a prediction: y, y2 and so on."""
    out = tmp / ("y.npy" if n == 1 else "y.h5")
    run(*command, "-o", out)
    if n == 1:
        return [np.load(out)]
    import h5py
    with h5py.File(out) as f:
        return [f[f"y{i + 1}" if i else "y"][...] for i in range(n)]


def main():
    build, folder, model, weights = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    info = json.loads((folder / "info.json").read_text())
    truth = tensors(folder / "truth.safetensors")
    want = {k[5:]: v for k, v in truth.items() if k.startswith("grad.")}
    dlrun = build / "cli/dlrun"
    with tempfile.TemporaryDirectory(prefix="dlc_test_") as tmp:
        tmp = pathlib.Path(tmp)
        given = doubled(folder / "batch.safetensors", tmp / "batch")
        doubled(weights, tmp / "weights")
        (tmp / "model.dl").write_text(doubled_text(pathlib.Path(model).read_text()))
        target = "wanted.0" if "wanted.0" in given else "t.0"
        batch = next(v.shape[0] for k, v in given.items() if k != target)
        out = run(dlrun, tmp / "model.dl", f"--local_batch_size={batch}", f"--init_weights={tmp / 'weights'}",
                  f"--replay={tmp / 'batch'}", f"--save_grads={tmp / 'g'}", f"--expdir={tmp / 'run'}")
        loss = next(json.loads(line)["loss"] for line in out.splitlines() if line.startswith('{"step"'))
        got = tensors(tmp / "g")
        words = []
        for k, v in given.items():
            if k != target:
                np.save(tmp / f"{k}.npy", v.numpy())
                words.append(f"{k[:-2]}={tmp / k}.npy" if len(given) > 2 else tmp / f"{k}.npy")
        wanted = [v.numpy() for k, v in sorted(truth.items()) if k.split(".")[0] == "predicted"]
        predicted = []
        if not info.get("mixes"):  # of a model that mixes samples there is no prediction
            predicted = predict(tmp, [dlrun, "predict", tmp / "weights", f"--model={tmp / 'model.dl'}", *words,
                                      f"--local_batch_size={batch}"], len(wanted))
    for names in info.get("names", []):
        found = next((got[n] for n in names if n in got), None)
        got.update({n: found for n in names if found is not None})
    missing = [k for k in want if k not in got and float(want[k].norm()) > 0]
    if missing:
        sys.exit(f"no gradient of {missing[:3]}")
    for k in want:
        got.setdefault(k, want[k] * 0)
    total = sum(float(g.norm())**2 for g in want.values())**0.5
    exact = float(truth["loss"])
    grad, name = worst(want, got, 1e-3 * total)
    off = abs(loss - exact) / max(1.0, abs(exact))
    # some give another output in evaluation mode
    output = max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) if a.shape == b.shape else 0.0
                 for a, b in zip(predicted, wanted)) if predicted else 0.0
    result = {"loss": off, "grad": grad, "of": name, "output": output,
              "agrees": all(v <= TOLERANCE for v in (off, grad, output))}  # NaN is not
    if "torch_step_s" in info:
        result["step"] = step_time(build, model, weights, info, batch)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
