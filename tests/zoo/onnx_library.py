#!/usr/bin/env python3
"""Models of public libraries as ONNX files of PyTorch's exporters, imported, checked and compared with ONNX Runtime.

onnx_library.py BUILD OUT [--list more | others] [--only PATTERN] [--table FILE.md]
tests/zoo/zoo BUILD OUT --onnx ... runs it

Each model is in evaluation mode, with random numbers in place of equal ones. "script" is the exporter by tracing, for
opset 13 and 17, "dynamo" that by torch.export, for 18 and 23. --list others: networks of Keras and JAX
(onnx_others.py). Predictions agree within 1e-5 of the largest number with those of ONNX Runtime, and
within that of PyTorch's in float64 or three times what ONNX Runtime is off. OUT keeps files and results.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")
TOLERANCE, AS_RUNTIME, SECONDS = 1e-5, 3, 400
KINDS = {"script13": 13, "script17": 17, "dynamo18": 18, "dynamo23": 23}  # opsets
OTHERS = ("keras", "jax")


def export(folder, library, name):
    """FOLDER/KIND.onnx or why there is none, inputs, and outputs of PyTorch in float64."""
    if library in OTHERS:
        import onnx_others
        return onnx_others.EXPORTS[f"{library}.{name}"](folder)
    import torch
    from library_export import doubled, without_chance
    from library_more import LIBRARIES
    torch.set_num_threads(1)
    torch.manual_seed(sum(map(ord, name)))
    model, inputs = LIBRARIES[library][name]()
    torch.manual_seed(7)
    for p in model.parameters():
        if p.dtype == torch.float32 and p.numel() > 1 and p.min() == p.max():
            p.data = p.data + 0.1 * torch.randn(p.shape)
    model = without_chance(model).eval()
    names = [f"x{i}" for i in range(len(inputs))]
    for kind, opset in KINDS.items():
        try:
            if kind.startswith("dynamo"):
                each = ({0: torch.export.Dim.DYNAMIC},) * len(inputs)
                shapes = (each,) if type(model).__name__ == "First" else each  # it takes *x
                torch.onnx.export(model, tuple(inputs), folder / f"{kind}.onnx", dynamo=True, external_data=False,
                                  opset_version=opset, input_names=names, output_names=["y"], verbose=False,
                                  dynamic_shapes=shapes)
            else:
                torch.onnx.export(model, tuple(inputs), folder / f"{kind}.onnx", dynamo=False, input_names=names,
                                  opset_version=opset, output_names=["y"],
                                  dynamic_axes={n: {0: "N"} for n in [*names, "y"]})
        except Exception as fault:
            (folder / f"{kind}.onnx").unlink(missing_ok=True)
            (folder / f"{kind}.why").write_text(re.sub(r"\s+", " ", str(fault))[:120])
    for n, x in zip(names, inputs):
        np.save(folder / f"{n}.npy", x.numpy())
    with torch.no_grad():
        exact = [x.double() if x.is_floating_point() else x for x in inputs]
        np.save(folder / "truth.npy", doubled(model)(*exact).numpy())


def run(*args):
    r = subprocess.run(list(map(str, args)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
    if r.returncode:
        raise RuntimeError((r.stderr or r.stdout).strip().splitlines()[-1][-160:])
    return r.stdout


def judge(build, folder, kind):
    import onnxruntime
    path, model, weights = folder / f"{kind}.onnx", folder / f"{kind}.dl", folder / f"{kind}.w"
    if not path.exists():
        why = folder / f"{kind}.why"
        return {"stage": "export", "why": why.read_text() if why.exists() else "the export ended early"}
    r = subprocess.run([build / "cli/dlc", "import", path, "-o", model, f"--weights={weights}", "--loss=mse",
                        "--report"],
                       capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
    if r.returncode:
        lacks = [re.sub(r", (in|line|node) .*", "", line.strip()) for line in r.stdout.splitlines()[1:]]
        return {"stage": "import", "why": r.stderr.strip()[-160:], "lacks": lacks}
    row = {"lines": sum(bool(line.strip()) for line in model.read_text().splitlines()), "stage": "check"}
    try:
        run(build / "cli/dlc", "check", model)
        row["stage"] = "run"
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        used = [i.name for i in session.get_inputs()]
        # other exporters have names of their own
        files = {n: folder / ("x0.npy" if kind in OTHERS else f"{n}.npy") for n in used}
        theirs = session.run(None, {n: np.load(file) for n, file in files.items()})[0]
        words = [file if len(used) == 1 else f"{n}={file}" for n, file in files.items()]
        run(build / "cli/dlrun", "predict", weights, f"--model={model}", *words, "-o", folder / "y.npy",
            f"--local_batch_size={np.load(files[used[0]]).shape[0]}")
    except (RuntimeError, subprocess.TimeoutExpired) as fault:
        return {**row, "why": str(fault)[-160:]}
    mine, truth = np.load(folder / "y.npy"), np.load(folder / "truth.npy")
    if mine.shape != theirs.shape:
        return {**row, "why": f"shape {mine.shape}, wanted {theirs.shape}"}
    scale = max(np.abs(truth).max(), 1e-30)
    row["runtime"], row["truth"] = (float(np.abs(mine - of).max() / scale) for of in (theirs, truth))
    row["runtime_off"] = float(np.abs(theirs - truth).max() / scale)
    limit = max(TOLERANCE, AS_RUNTIME * row["runtime_off"])
    row["stage"] = "agrees" if max(row["runtime"], row["truth"]) <= limit else "differs"
    return row


def put_table(path, rows, lacking):
    out = []
    for kind in dict.fromkeys(k for _, k in rows):
        of = [r for (_, k), r in rows.items() if k == kind and r["stage"] != "export"]
        done = collections.Counter(r["stage"] for r in of)
        n, whole = max(len(of), 1), len(of) - done["import"] - done["check"]
        out.append(f"- {kind}: {len(of)} exported, {whole} import and pass `dlc check` ({whole / n:.0%}), "
                   f"{done['agrees']} agree ({done['agrees'] / n:.0%})")
    out += ["", "| model | exporter | result | lines | ONNX Runtime | PyTorch | ONNX Runtime and PyTorch |",
            "|---|---|---|---|---|---|---|"]
    for (name, kind), r in sorted(rows.items()):
        numbers = [f"{r[k]:.0e}" if k in r else "" for k in ("runtime", "truth", "runtime_off")]
        stage = "not exported" if r["stage"] == "export" else r["stage"]
        out.append(f"| {name} | {kind} | {stage} | {r.get('lines', '')} | " + " | ".join(numbers) + " |")
    out += ["", "Operations that are lacking, by the number of files:", ""]
    out += [f"- {count} {op}" for op, count in lacking.most_common(40)] or ["- none"]
    pathlib.Path(path).write_text("\n".join(out) + "\n")


def main():
    import library_more
    import onnx_others
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    rows, lacking = {}, collections.Counter()
    others = {of: [n.split(".")[1] for n in onnx_others.EXPORTS if n.startswith(f"{of}.")] for of in OTHERS}
    lists = {"first": library_more.FIRST, "more": library_more.MORE, "others": others}
    for library, models in lists[options.get("--list", "first")].items():
        for name in models:
            full, folder = f"{library}.{name}", out / f"{library}.{name}"
            if not re.search(options.get("--only", ""), full):
                continue
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "truth.npy").exists():
                subprocess.run([sys.executable, __file__, "--export", folder, library, name], timeout=SECONDS,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for kind in [library] if library in OTHERS else KINDS:
                row = judge(build, folder, kind)
                rows[full, kind] = row
                lacking.update({re.sub(r"^\d+ +", "", op) for op in row.get("lacks", [])})
                print(full, kind, json.dumps(row), flush=True)
            if "--table" in options:
                put_table(options["--table"], rows, lacking)
    return any(r["stage"] in ("differs", "run", "check") for r in rows.values())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--export"]:
        export(pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4])
        os._exit(0)
    sys.exit(main())
