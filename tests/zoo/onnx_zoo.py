#!/usr/bin/env python3
"""The models of models.py as ONNX files of both of PyTorch's exporters, imported and compared.

onnx_zoo.py BUILD OUT [--table FILE.md] [NAME...]
onnx_zoo.py --small OUT NAME.KIND...         files for the repository, without the paths of this machine
(PyTorch 2.9 or newer, onnx, onnxruntime; onnxscript for dynamo)

script: the exporter by tracing, in training mode; evaluated: the same in evaluation mode, where it merges batch norms
into convolutions; dynamo: the exporter by torch.export. Outputs are compared with PyTorch's in float64 and with ONNX
Runtime's, gradients of a training step with PyTorch's in float64 wherever the file has PyTorch's names.
"""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import warnings

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from models import MODELS

warnings.filterwarnings("ignore")
KINDS = ("script", "evaluated") + (("dynamo", ) if importlib.util.find_spec("onnxscript") else ())


def made(name):
    torch.manual_seed(sum(map(ord, name)))
    make, shapes = MODELS[name]
    model = make()
    return model, [torch.randn(s) for s in shapes]


def export(name, kind, path):
    model, inputs = made(name)
    model.train(kind == "script")
    if kind == "dynamo":
        torch.onnx.export(model, tuple(inputs), path, dynamo=True, dynamic_shapes=({0: "N"}, ) * len(inputs),
                          input_names=["x"], output_names=["y"], external_data=False, verbose=False)
        return
    training = torch.onnx.TrainingMode.TRAINING if kind == "script" else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(model, tuple(inputs), path, dynamo=False, dynamic_axes={"x": {0: "N"}}, training=training,
                      do_constant_folding=kind == "evaluated", input_names=["x"], output_names=["y"])


def shrink(path):
    """Without shapes, which the reader infers, and of the metadata what it reads, without paths of this machine."""
    import onnx
    file = onnx.load(path)
    del file.graph.value_info[:], file.metadata_props[:]
    for node in file.graph.node:
        kept = [p for p in node.metadata_props if p.key.rsplit(".", 1)[-1] in
                ("name_scopes", "class_hierarchy", "stack_trace")]
        for p in kept:
            p.value = re.sub(r'File "[^"]*/', 'File "', p.value)
        kept = [onnx.StringStringEntryProto(key=p.key, value=p.value) for p in kept]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for held in file.graph.initializer:
        del held.metadata_props[:]
    onnx.save(file, path)


def truth(name, folder):
    """PyTorch's outputs in evaluation and a training step's loss and gradients, in float64."""
    model, inputs = made(name)
    wide = MODELS[name][0]().double()
    wide.load_state_dict(model.state_dict())
    for p in wide.parameters():
        p.data = p.data.to(torch.cdouble if p.is_complex() else torch.double)
    x = [i.double() for i in inputs]
    y = wide.eval()(*x).detach()
    target = torch.randn(y.shape)
    loss = torch.nn.functional.mse_loss(wide.train()(*x), target.double())
    loss.backward()
    save_file({"x.0": inputs[0], "t.0": target}, folder / "batch.safetensors")
    np.save(folder / "x.npy", inputs[0].numpy())
    torch.nn.functional.mse_loss(model.train()(*inputs), target).backward()

    def gradients(of):
        return {k: torch.view_as_real(p.grad) if p.is_complex() else p.grad for k, p in of.named_parameters()}

    return y.numpy(), loss.item(), {k: g.numpy() for k, g in gradients(wide).items()}, wide, gradients(model)


def run(*args):
    return subprocess.run(list(map(str, args)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)


def last(r):
    lines = (r.stderr or r.stdout).strip().splitlines()
    return lines[-1][-200:] if lines else f"exit {r.returncode}"


def distance(got, want):
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 1e-30))


def compare(build, folder, kind, want):
    """The largest relative differences of an imported file, or why there are none."""
    import onnxruntime
    outputs, loss, grads, wide, narrow = want
    path, model, weights = folder / f"{kind}.onnx", folder / f"{kind}.dl", folder / f"{kind}.w"
    r = run(build / "cli/dlc", "import", path, "-o", model, f"--weights={weights}", "--loss=mse", "--report")
    row = {"lacks": [line.strip() for line in r.stdout.splitlines()[1:]]}
    if r.returncode:
        return {**row, "why": last(r)}
    row["lines"] = sum(bool(line.strip()) for line in model.read_text().splitlines())
    r = run(build / "cli/dlc", "check", model)
    if r.returncode:
        return {**row, "why": last(r)}
    batch = len(outputs)
    r = run(build / "cli/dlrun", "predict", weights, f"--model={model}", folder / "x.npy", "-o", folder / "y.npy")
    if r.returncode:
        return {**row, "why": last(r)}
    got = np.load(folder / "y.npy")
    if kind == "script":  # tracing in training mode has changed the running statistics
        wide.load_state_dict(load_file(weights), strict=False)
        with torch.no_grad():
            outputs = wide.double().eval()(torch.from_numpy(np.load(folder / "x.npy")).double()).numpy()
    row["outputs"] = distance(got, outputs)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    if kind != "script":
        theirs = session.run(None, {session.get_inputs()[0].name: np.load(folder / "x.npy")})[0]
        row["runtime"] = distance(got, theirs)
    r = run(build / "cli/dlrun", model, f"--local_batch_size={batch}", f"--init_weights={weights}",
            f"--replay={folder / 'batch.safetensors'}", f"--save_grads={folder / 'g'}", f"--expdir={folder / 'run'}")
    if r.returncode:
        return {**row, "why": last(r)}
    mine = load_file(folder / "g")
    if not set(mine) >= set(grads):  # batch norms are merged into convolutions
        return {**row, "names": sorted(set(mine) ^ set(grads))}
    step = next(json.loads(line)["loss"] for line in r.stdout.splitlines() if line.startswith('{"step"'))
    total = sum(float((g**2).sum()) for g in grads.values())**0.5
    row["loss"] = abs(step - loss) / max(1, abs(loss))

    def off(found):
        return max(float(((found[k].double().numpy() - g)**2).sum()**0.5) /
                   max(float((g**2).sum()**0.5), 1e-3 * total) for k, g in grads.items())

    row["grad"], row["torch_grad"] = off(mine), off(narrow)
    return row


def agrees(row):
    limit = max(1e-5, 3 * row.get("torch_grad", 0))  # as far off as PyTorch's float32
    return ("why" not in row and max(row.get(k, 0) for k in ("outputs", "runtime", "loss")) <= 1e-5 and
            row.get("grad", 0) <= limit)


def main():
    if sys.argv[1] == "--small":
        for word in sys.argv[3:]:
            path = pathlib.Path(sys.argv[2]) / f"{word}.onnx"
            export(*word.split("."), path)
            shrink(path)
        return 0
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    words = sys.argv[3:]
    table = words[words.index("--table") + 1] if "--table" in words else None
    names = [w for w in words if w in MODELS] or list(MODELS)
    rows = {}
    for name in names:
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        want = truth(name, folder)
        for kind in KINDS:
            try:
                if not (folder / f"{kind}.onnx").exists():
                    export(name, kind, folder / f"{kind}.onnx")
                row = compare(build, folder, kind, want)
            except Exception as e:  # the exporter refuses the model
                row = {"why": "not exported: " + re.sub(r"\s+", " ", str(e))[:100], "exporter": True}
            rows[name, kind] = row
            print(name, kind, "agrees" if agrees(row) else "", {k: v for k, v in row.items() if v}, flush=True)
    if table:
        exported = [r for r in rows.values() if "exporter" not in r]
        text = [f"{len(exported)} files, {sum('lines' in r for r in exported)} imported whole, "
                f"{sum(map(agrees, exported))} agree within 1e-5.", "",
                "| model | exporter | result | lines | outputs | ONNX Runtime | loss | gradients |",
                "|---|---|---|---|---|---|---|---|"]
        for (name, kind), r in rows.items():
            lacks = r.get("lacks") and "lacks " + re.sub(r"^\d+ +|,.*", "", r["lacks"][0])
            shown = "agrees" if agrees(r) else "not exported" if "exporter" in r else lacks or r.get("why", "differs")
            numbers = [f"{r[k]:.0e}" if k in r else "" for k in ("outputs", "runtime", "loss", "grad")]
            text.append(f"| {name} | {kind} | {shown} | {r.get('lines', '')} | " + " | ".join(numbers) + " |")
        pathlib.Path(table).write_text("\n".join(text) + "\n")
    return not all(agrees(r) or "exporter" in r for r in rows.values())


if __name__ == "__main__":
    sys.exit(main())
