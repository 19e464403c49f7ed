#!/usr/bin/env python3
"""Models of public libraries and of models/field leave the house: each exported as C, ONNX and PyTorch, and compared
with PyTorch's own.

outside.py BUILD OUT [--only PATTERN] [--table FILE.md]      tests/zoo/zoo BUILD OUT --outside ... makes the interpreter

A model of a library is imported first. It is in evaluation mode, with random weights and random running statistics; a
parameter that its library begins with one number, such as a head of zeros, is random, too. A model of models/field is
compared with its PyTorch form (tests/field). An export is run on two samples: C by gcc -std=c11 -pedantic -Wall
-Werror, ONNX by ONNX Runtime, PyTorch by torch. The differences are parts of the largest number that PyTorch computes
in float64; a format agrees within 1e-5, or within three times PyTorch's float32.
OUT keeps archives and results, so that a run goes on where another stopped; results of another dlc are made again.
FILE.md is a whole page: every row is of the dlc and the libraries that its head names.
"""
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "field"))
from table import TABLE  # noqa: E402

TOLERANCE, AS_TORCH, SECONDS = 1e-5, 3, 900
CHOSEN = {
    "timm": "resnet18 resnet26d seresnet18 vit_tiny_patch16_224 deit3_small_patch16_224 convnext_atto convnextv2_atto "
            "convmixer_768_32 mixer_s32_224 resmlp_12_224 gmlp_ti16_224 poolformer_s12 efficientnet_b0 mobilenetv2_050 "
            "mobilenetv3_small_050 mnasnet_small lcnet_050 tinynet_e regnetx_002 regnety_002 ghostnet_050 "
            "cait_xxs24_224 swin_tiny_patch4_window7_224 dla46_c skresnet18 inception_next_atto repvgg_a0",
    "torchvision": "alexnet vgg11 resnet18 squeezenet1_1 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 mnasnet0_5 "
                   "googlenet regnet_x_400mf lraspp_mobilenet_v3_large",
    "monai": "UNet2d UNet3d SegResNet SegResNet3d VNet AttentionUnet DynUNet HighResNet AutoEncoder Generator",
    "neuraloperator": "FNO1d FNO2d FNO2d_norm FNO3d TFNO2d",
    "transformers": "Bert ViT Dinov2 GPT2 Llama Segformer T5Encoder",
    "field": " ".join(TABLE),
}


def run(*args, seconds=SECONDS, **more):
    r = subprocess.run([*map(str, args)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds,
                       **more)
    if r.returncode:
        lines = (r.stderr or r.stdout).strip().splitlines() or [f"exit {r.returncode}"]
        faults = [line for line in lines if "error:" in line] or lines[-1:]  # a traceback ends in its reason
        raise RuntimeError(re.sub(r"\S*/", "", faults[0])[:100])
    return r


# ---- the model itself ----

def listed(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def keep(folder, inputs, plain, truth):
    """Inputs by name, and outputs of PyTorch in float32 and float64."""
    from safetensors.torch import save_file
    tensors = {f"in.{i}.{n}": x for i, (n, x) in enumerate(inputs.items())}
    tensors |= {f"f32.{k}": y for k, y in enumerate(plain)} | {f"truth.{k}": y for k, y in enumerate(truth)}
    folder.mkdir(parents=True, exist_ok=True)
    save_file({n: x.detach().contiguous() for n, x in tensors.items()}, folder / "truth.safetensors")


def take_field(folder, name):
    """A model of models/field: FOLDER/model.safetensors, and what its PyTorch form makes of two samples."""
    import inspect

    import torch
    from safetensors.torch import save_file
    torch.manual_seed(5)
    net = TABLE[name].network(TABLE[name].small).eval()
    for p in net.parameters():
        p.data += 0.1 * torch.randn_like(p)
    batch = net.batch(2)
    inputs = {n: batch[n] for n in inspect.signature(net.forward).parameters}
    plain = listed(net(**inputs))
    folder.mkdir(parents=True, exist_ok=True)
    pairs = {n: torch.view_as_real(v) if v.is_complex() else v for n, v in net.state_dict().items()}
    save_file({n: v.clone().contiguous() for n, v in pairs.items()}, folder / "model.safetensors")
    for p in net.parameters():
        p.data = p.data.to(torch.complex128 if p.is_complex() else torch.float64)
    for b in net.buffers():
        b.data = b.data.double() if b.is_floating_point() else b.data
    keep(folder, inputs, plain, listed(net(**{n: v.double() if v.is_floating_point() else v
                                              for n, v in inputs.items()})))


def archive(folder, library, name):
    """FOLDER/model.pt2, and inputs and outputs of PyTorch in float64 and float32."""
    import torch
    from library_export import doubled, without_chance
    from library_models import LIBRARIES

    def make():
        torch.manual_seed(sum(map(ord, name)))
        model, inputs = LIBRARIES[library][name]()
        torch.manual_seed(7)
        for p in model.parameters():
            if p.numel() > 1 and p.min() == p.max():
                p.data = p.data + 0.1 * torch.randn(p.shape)
        for k, b in model.named_buffers():
            if k.endswith("running_mean"):
                b.data = 0.1 * torch.randn(b.shape)
            if k.endswith("running_var"):
                b.data = 0.5 + torch.rand(b.shape)
        return without_chance(model).eval(), tuple(inputs)

    torch.set_num_threads(1)
    model, inputs = make()
    program = torch.export.export(model, inputs)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    with torch.no_grad():
        plain = model(*inputs)
        exact = [x.double() if x.is_floating_point() else x for x in inputs]
        try:
            truth = doubled(make()[0])(*exact)
        except RuntimeError:  # a library may make float32 tensors by itself
            torch.set_default_dtype(torch.double)
            truth = doubled(make()[0])(*exact)
    keep(folder, dict(zip(names, inputs)), [plain], [truth])
    torch.export.save(program, folder / "model.pt2")


# ---- the exports ----

def of_onnx(path, inputs, truth):
    import numpy as np
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    first = session.get_inputs()[0]
    feeds = {i.name: inputs[i.name] for i in session.get_inputs()}
    if isinstance(first.shape[0], int) and feeds[first.name].shape[0] != first.shape[0]:  # a fixed batch of one
        parts = [session.run(None, {k: x[i:i + 1] for k, x in feeds.items()}) for i in range(len(truth[0]))]
        return [np.concatenate(y) for y in zip(*parts)]
    return session.run(None, feeds)


def of_pytorch(folder, inputs, truth):
    import inspect

    import torch
    from safetensors.torch import load_file
    source = next(folder.glob("*.py"))
    spec = importlib.util.spec_from_file_location("exported", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, torch.nn.Module)
            and c.__module__ == "exported"]
    net = made[-1]()
    net.load_state_dict(load_file(source.with_suffix(".safetensors")))
    names = [n if n in inputs else n[:-1] for n in inspect.signature(net.forward).parameters]
    with torch.no_grad():
        return [y.numpy() for y in listed(net.eval()(*(torch.from_numpy(inputs[n]) for n in names)))]


def of_c(folder, inputs, truth):
    import numpy as np
    name = next(folder.glob("*.h")).stem
    for source in (f"{name}.c", f"{name}_weights.c", "example.c"):
        run("gcc", "-std=c11", "-pedantic", "-Wall", "-Werror", "-O2", "-march=native", "-c", source, cwd=folder)
    objects = [f"{name}.o", f"{name}_weights.o", "example.o"]
    run("gcc", *objects, "-lm", "-o", "example", cwd=folder)
    order = re.findall(r"^ \*   (?:array_)?(\w+): ", (folder / f"{name}.h").read_text(), re.M)
    order = [n for n in order if n in inputs]
    for n in order:
        inputs[n].tofile(folder / f"in.{n}")
    outs = [f"out{k}" for k in range(len(truth))]
    run(folder / "example", *[f"in.{n}" for n in order], *outs, cwd=folder)
    return [np.fromfile(folder / out, "f4").reshape(y.shape) for out, y in zip(outs, truth)]


FORMATS = {"c": of_c, "onnx": of_onnx, "pytorch": of_pytorch}


def furthest(got, truth):
    """The largest difference of an output, in parts of its largest number; or shapes that differ."""
    import numpy as np
    for a, b in zip(got, truth):
        if a.shape != b.shape:
            return f"{a.shape}, not {b.shape}"
    return max(float(np.abs(a - b).max() / (np.abs(b).max() or 1)) for a, b in zip(got, truth))


def model_of(build, folder, name):
    """The model's file, and its arguments."""
    if name in TABLE and folder.name.startswith("field."):
        return ROOT / f"models/field/{name}.dl", TABLE[name].words(TABLE[name].small)
    weights, model = folder / "model.safetensors", folder / "model.dl"
    run(build / "cli/dlc", "import", folder / "model.pt2", "-o", model, f"--weights={weights}", "--loss=mse")
    return model, []


def judge(build, folder, name):
    """{format: the largest difference, or why there is none}, with PyTorch's float32 as "f32"."""
    from safetensors.numpy import load_file
    kept = load_file(folder / "truth.safetensors")
    truth, plain = ([kept[f"{what}.{k}"].astype("f8") for k in range(sum(n.startswith(what) for n in kept))]
                    for what in ("truth", "f32"))
    inputs = {k.split(".", 2)[2]: x for k, x in kept.items() if k.startswith("in.")}
    result = {"f32": furthest(plain, truth)}
    weights = folder / "model.safetensors"
    model, words = model_of(build, folder, name)
    for name, outputs in FORMATS.items():
        out = folder / (name if name != "onnx" else "model.onnx")
        shutil.rmtree(out, ignore_errors=True)
        try:
            run(build / "cli/dlc", "export", weights, f"--model={model}", "-o", out, f"--as={name}",
                "--data_loader_config=synthetic", *words, *(["--target=cpu:avx2,cpu:generic"] if name == "c" else []))
            result[name] = furthest(outputs(out, inputs, truth), truth)
        except Exception as fault:
            result[name] = f"{fault}".splitlines()[0][:100]
        finally:
            if out.is_dir():
                shutil.rmtree(out)
            else:
                out.unlink(missing_ok=True)
    return result


def agrees(result, name):
    value = result.get(name)
    return isinstance(value, float) and value <= max(TOLERANCE, AS_TORCH * result["f32"])


HEAD = """# The zoo of exported models

Made by `tests/zoo/zoo BUILD OUT --outside --table FILE.md`: {versions}. Each model of a
library is imported; those of models/field are as they are. Each is exported in three formats and run by gcc's program,
by ONNX Runtime and by PyTorch on two samples. The numbers are the largest difference from PyTorch's float64, in parts
of the largest number. Parameters that begin with one number are random, too (a head of zeros agrees with anything).

{models} models{left}: {counts}.

| model | C | ONNX | PyTorch | PyTorch's float32 |
|---|---|---|---|---|
"""


def versions_of(build):
    """One line: dlc's commit, the compiler, and the libraries."""
    said = run(build / "cli/dlc", "--version", "--verbose").stdout
    commit = re.search(r"^commit (\S+)", said, re.M)
    names = ["torch", *(n for n in CHOSEN if n != "field"), "onnxruntime"]
    found = [f"dlc {commit[1] if commit else said.split()[1]}",
             f"gcc {run('gcc', '-dumpfullversion').stdout.strip()}"]
    return ", ".join(found + [f"{n} {importlib.metadata.version(n)}" for n in names])


def put_table(path, head, rows):
    counts = ", ".join(f"{sum(agrees(r, f) for r in rows.values())} agree as {f}" for f in FORMATS)
    left = sum(len(names.split()) for names in CHOSEN.values()) - len(rows)
    out = [HEAD.format(versions=head, models=len(rows), counts=counts,
                       left=f" ({left} of the list are not run yet)" if left else "").rstrip("\n")]
    for name, r in sorted(rows.items()):
        cells = [f"{r[k]:.0e}" if isinstance(r.get(k), float) else f"{r.get(k, r.get('why', ''))}".replace("|", "/")
                 for k in (*FORMATS, "f32")]
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    pathlib.Path(path).write_text("\n".join(out) + "\n")


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    options = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    rows, head = {}, versions_of(build)
    program = hashlib.sha256((build / "cli/dlc").read_bytes()).hexdigest()
    for library, names in CHOSEN.items():
        for name in names.split():
            full, folder = f"{library}.{name}", out / f"{library}.{name}"
            if not re.search(options.get("--only", ""), full):
                continue
            kept = folder / "outside.json"
            try:
                if not (folder / "truth.safetensors").exists():
                    run(sys.executable, __file__, "--archive", folder, library, name)
                if not kept.exists() or json.loads(kept.read_text()).get("dlc") != program:
                    kept.write_text(json.dumps({"dlc": program, **judge(build, folder, name)}))
                rows[full] = json.loads(kept.read_text())
            except Exception as fault:
                rows[full] = {"why": f"{fault}".splitlines()[0][:100]}
            print(full, rows[full], flush=True)
            if "--table" in options:
                put_table(options["--table"], head, rows)
    return not all(agrees(r, f) for r in rows.values() for f in FORMATS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--archive"]:
        place, kind, which = pathlib.Path(sys.argv[2]), *sys.argv[3:5]
        take_field(place, which) if kind == "field" else archive(place, kind, which)
        os._exit(0)
    sys.exit(main())
