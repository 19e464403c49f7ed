#!/usr/bin/env python3
"""`dlc import` on files that tests/zoo/export.py and onnx_zoo.py wrote: text, weights, gradients; `dlc fmt`.

check_import.py BUILD [--update] [FOLDER]

--update writes tests/data/import/NAME.dl anew: read the difference. FOLDER: all archives in it in place of those of the
repository, without their texts (oracle_import.py).
"""
import json
import pathlib
import struct
import subprocess
import sys
import zipfile

import import_hostile as hostile
import onnx_text as onnx
from checks import ENV, TMP, check, finish

BUILD, ROOT = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).resolve().parents[2]
DATA, OUT = ROOT / "tests/data/import", pathlib.Path(TMP)
EXAMPLES = ROOT / "examples/import"
DLC, DLRUN = BUILD / "cli/dlc", BUILD / "cli/dlrun"


def run(*args, status=0, says=""):
    r = subprocess.run(list(map(str, args)), capture_output=True, text=True, env=ENV, stdin=subprocess.DEVNULL, cwd=OUT,
                       timeout=300)
    check(r.returncode == status and says in r.stdout + r.stderr,
          f"{' '.join(map(str, args))[-120:]}: exit {r.returncode}, wanted {status} and '{says}': "
          f"{(r.stdout + r.stderr)[-400:]}")
    return r


def tensors(path):
    """{name: numbers} of the tensors of a safetensors file."""
    raw = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + n]), raw[8 + n:]
    header.pop("__metadata__", None)
    found = {}
    for name, t in header.items():
        a, b = t["data_offsets"]
        code, size = {"F32": ("f", 4), "F64": ("d", 8), "I64": ("q", 8), "BOOL": ("?", 1)}[t["dtype"]]
        found[name] = struct.unpack(f"<{(b - a) // size}{code}", data[a:b])
    return found


def distance(a, b):
    return sum((x - y)**2 for x, y in zip(a, b))**0.5


def batch_of(path):
    """The first size of the first input."""
    raw = path.read_bytes()
    header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
    return next(t["shape"][0] for n, t in header.items() if n not in ("t.0", "__metadata__"))


def compare(truth, data=DATA, file=None):
    """Loss and gradients of the imported model, and float64's of PyTorch. file: in place of `truth`.pt2."""
    file = file or f"{truth}.pt2"
    name, _, kind = file.rpartition(".")
    archive = next(f / file for f in (data, EXAMPLES) if (f / file).exists())
    run(DLC, "import", archive, "-o", f"{name}.dl", f"--weights={name}.w", "--loss=mse")
    text = (OUT / f"{name}.dl").read_text()
    if "--update" in sys.argv:
        (DATA / f"{name}.dl").write_text(text)
    if data == DATA:
        check(text == (DATA / f"{name}.dl").read_text(),
              f"{name}.dl is that of tests/data/import (--update writes it):\n{text}")
    run(DLC, "fmt", "--check", f"{name}.dl")
    run(DLC, "check", f"{name}.dl", says="ok")
    r = run(DLRUN, f"{name}.dl", f"--local_batch_size={batch_of(data / f'{truth}.batch.safetensors')}",
            f"--init_weights={name}.w", f"--replay={data / f'{truth}.batch.safetensors'}",
            f"--save_grads={name}.g", f"--expdir=run_{name}_{kind}")
    if r.returncode:
        return
    truth, got = tensors(data / f"{truth}.truth.safetensors"), tensors(OUT / f"{name}.g")
    loss, wanted = next(json.loads(line)["loss"] for line in r.stdout.splitlines()
                        if line.startswith('{"step"')), truth.pop("loss")[0]
    check(abs(loss - wanted) <= 1e-5 * max(1, abs(wanted)), f"{name}: loss {loss}, PyTorch's {wanted}")
    check(sorted(truth) == sorted(got), f"{name}: {sorted(set(truth) ^ set(got))}")
    total = sum(distance(g, [0] * len(g))**2 for g in truth.values())**0.5
    for key in sorted(set(truth) & set(got)):
        size = max(distance(truth[key], [0] * len(truth[key])), 1e-3 * total)
        check(distance(truth[key], got[key]) <= 1e-5 * size,
              f"{name}: gradient of {key}: {distance(truth[key], got[key]) / size:.1e}")


def changed(name, edit, texts="models/model.json"):
    """A copy of mixer.pt2 with another text of model.json, or of other files whose names end so."""
    old = zipfile.ZipFile(DATA / "mixer.pt2")
    with zipfile.ZipFile(OUT / name, "w", zipfile.ZIP_STORED) as new:
        for entry in old.namelist():
            data = old.read(entry)
            if entry.endswith(texts):
                after = edit(data)
                check(texts == ".json" or after != data, f"{name}: the edit changes the text")
                data = after
            new.writestr(zipfile.ZipInfo(entry), data)
    return name


def check_lacks():
    """An op that the language lacks: named and counted with its place, and everything else is written."""
    lacking = changed("lacking.pt2",
                      lambda t: t.replace(b"torch.ops.aten.amax.default", b"torch.ops.aten.strange.default"))
    r = run(DLC, "import", lacking, "-o", "lacking.dl", "--report", status=3, says="aten.strange.default")
    check("line " in r.stdout and "1  aten.strange.default" in r.stdout, f"the report names the line: {r.stdout}")
    run(DLC, "check", "lacking.dl", status=3, says="aten.strange.default is not in the language, line")
    check("einsum" in (OUT / "lacking.dl").read_text(), "the other operations are written")


def check_refusals():
    whole = (DATA / "mixer.pt2").read_bytes()
    (OUT / "cut.pt2").write_bytes(whole[:len(whole) // 2])
    flipped = bytearray(whole)
    flipped[whole.index(b'"graph_module"') + 3] ^= 1
    (OUT / "flipped.pt2").write_bytes(flipped)
    run(DLC, "import", "cut.pt2", status=3, says="cut.pt2")
    run(DLC, "import", "flipped.pt2", status=3, says="checksum")
    run(DLC, "import", "absent.pt2", status=4, says="absent.pt2")
    run(DLC, "import", DATA / "mixer.dl", status=3, says="mixer.dl")
    run(DLC, "import", DATA / "mixer.pt2", "--loss=none_such", status=2, says="--loss=none_such")
    run(DLC, "import", status=2, says="dlc import FILE.pt2")
    cyclic = changed("cyclic.pt2",
                     lambda t: t.replace(b'"arg":{"as_tensor":{"name":"x"}}', b'"arg":{"as_tensor":{"name":"pad"}}', 1))
    run(DLC, "import", cyclic, status=3, says="is used before it is computed")
    deep = changed("deep.pt2", lambda t: b'{"a":' + b"[" * 100000 + t)
    run(DLC, "import", deep, status=3, says="deep.pt2: models/model.json")
    strange = changed("strange.pt2", lambda t: t.replace(b'"gain"', b'"g a\\u001bn"'))
    r = run(DLC, "import", strange, status=3)
    check("\x1b" not in r.stdout + r.stderr, "names are shown without control characters")


def check_hostile():
    """Archives that lie about sizes, files and names are refused with their place, and names with signs keep them."""
    for file, says in hostile.cases(DATA / "mixer.pt2", OUT):
        run(DLC, "import", file, "-o", "hostile.dl", "--weights=hostile.w", status=3, says=says)
    check(not (OUT / "hostile.dl").exists() and not (OUT / "hostile.w").exists(), "nothing is written of them")
    for name, good in hostile.NAMES.items():
        file = hostile.archive(DATA / "mixer.pt2", OUT / "named.pt2", [(None, b'"gain"', f'"{name}"'.encode())])
        run(DLC, "import", file, "-o", "named.dl", "--weights=named.w", "--loss=mse", status=0 if good else 3,
            says="" if good else "its name is no name here")
        run(DLC, "check", "named.dl", status=0 if good else 3, says="ok" if good else "is no name here")
        check(not good or name in tensors(OUT / "named.w"), f"'{name}' keeps its name in the weights")
    for old, new, says in ((b"models.Depthwise", b"models.in", ""),
                           (b"blocks.", b"blo ks.", "its name is no name here")):
        file = hostile.archive(EXAMPLES / "convnext.pt2", OUT / "module.pt2", [(None, old, new)])
        run(DLC, "import", file, "-o", "module.dl", "--loss=mse", status=3 if says else 0, says=says)
        run(DLC, "check", "module.dl", status=3 if says else 0, says=says or "ok")


def check_words():
    """A parameter whose name is a word of the language gets another name, and keeps its own as a label."""
    for word in "optimize", "buffer", "figure", "in":
        file = changed(f"{word}.pt2", lambda t: t.replace(b'"gain"', f'"{word}"'.encode()), texts=".json")
        run(DLC, "import", file, "-o", f"{word}.dl", "--loss=mse")
        check(f" @{word}: [E=8]" in (OUT / f"{word}.dl").read_text(), f"{word} is a label")
        run(DLC, "check", f"{word}.dl")


def check_folder():
    """A folder of archives: the share of models, and what lacks by the number of models."""
    folder = OUT / "folder"
    folder.mkdir()
    for name in ("mixer.pt2", "mlp.pt2"):
        (folder / name).write_bytes((DATA / name).read_bytes())
    run(DLC, "import", folder, "--report", says="2 of 2 models")
    (folder / "other.pt2").write_bytes((OUT / "lacking.pt2").read_bytes())
    r = run(DLC, "import", "--report", folder, status=3, says="2 of 3 models")
    check("1 models, 1 times  aten.strange.default" in r.stdout, f"the lacking op is counted: {r.stdout}")
    (folder / "broken.pt2").write_bytes(b"no archive")
    run(DLC, "import", folder, "--report", status=3, says="broken.pt2")
    (OUT / "nothing").mkdir()
    run(DLC, "import", OUT / "nothing", "--report", status=3, says="no files *.pt2")


def check_buffers():
    """A run does not begin without the numbers of buffers."""
    run(DLC, "import", DATA / "tied.pt2", "-o", "tied.dl", "--weights=tied.w", "--loss=mse")
    replay = f"--replay={DATA / 'tied.batch.safetensors'}"
    run(DLRUN, "tied.dl", "--local_batch_size=2", replay, "--expdir=run_none", status=2, says="--init_weights=FILE")


def check_onnx():
    """What no exporter writes: sizes that the file leaves open, other files, and damage, refused with its place."""
    add = onnx.node("Add", ["x", "b"], ["y"], "sum")

    def written(content, name="made.onnx"):
        (OUT / name).write_bytes(content)
        return name

    def refused(content, says, *options, status=3):
        r = run(DLC, "import", written(content), *options, status=status, says=says)
        check("made.onnx" in r.stderr and "\x1b" not in r.stderr, f"the file is named: {r.stderr}")

    bias = onnx.tensor("b", [4], [1, 2, 3, 4])
    run(DLC, "import", written(onnx.model([add], [bias])), says="param b: [E=4] ~ normal(")
    refused(onnx.model([add], [bias])[:-9], "breaks off")
    refused(b"", "no ONNX model")
    refused(onnx.model([add], [bias], opset=12), "opset 12")
    refused(onnx.model([add], [onnx.tensor("b", [-4], [1])]), "tensor 'b': axis 0 has the size -4")
    refused(onnx.model([add], [onnx.tensor("b", [1 << 40, 1 << 40], [1])]), "2^47")
    refused(onnx.model([add], [onnx.tensor("b", [5], [1])]), "it has 4 bytes of numbers, its shape needs 20")
    refused(onnx.model([add], [bias, bias]), "tensor 'b': it is there twice")
    refused(onnx.model([onnx.node("Add", ["x", "z"], ["y"], "a"), onnx.node("Relu", ["y"], ["z"], "b")]),
            "node 0, 'a' (Add): 'z' is used before it is computed")
    refused(onnx.model([add, add], [bias]), "'y' is computed twice")
    refused(onnx.model([add], [onnx.tensor("b", [3], [1, 2, 3])]), "node 0, 'sum' (Add): operands of other sizes meet")
    refused(onnx.model([onnx.node("Relu", ["x"], ["z"])]), "output 'y': no node computes it")
    images = [("x", ("N", 4, "height", 8))]
    flat = onnx.model([onnx.node("GlobalAveragePool", ["x"], ["y"])], inputs=images, outputs=[("y", ("N", 4, 1, 1))])
    refused(flat, "--sizes=height=64")
    run(DLC, "import", written(flat), "--sizes=height=64", says="x: f32[N, C=4, H=64, W=8]")
    (OUT / "numbers").write_bytes(b"\0" * 32)
    other = onnx.model([add], [onnx.tensor("b", [4], location="numbers", offset=16)])
    run(DLC, "import", written(other), "-o", "other.dl", "--weights=other.w")
    check(tensors(OUT / "other.w") == {"b": (0, ) * 4}, "weights of another file")
    for location in ("/etc/passwd", "../numbers", "a/../../b", ""):
        refused(onnx.model([add], [onnx.tensor("b", [4], location=location)]), "not in the file's folder")
    (OUT / "link").symlink_to("/etc/passwd")
    refused(onnx.model([add], [onnx.tensor("b", [4], location="link")]), "is a link")
    refused(onnx.model([add], [onnx.tensor("b", [4], location="numbers", offset=20)]), "20 of 'numbers'")
    refused(onnx.model([add], [onnx.tensor("b", [4], location="numbers", length=1 << 62)]), "its shape needs 16")
    absent = onnx.model([add], [onnx.tensor("b", [4], location="absent")])
    run(DLC, "import", written(absent), status=4, says="cannot open absent")
    strange = onnx.model([onnx.node("Strange", ["x"], ["y"], "odd\x1b\"name", domain="com.x")])
    r = run(DLC, "import", written(strange), "--report", status=3, says="1  onnx.com.x.Strange, node 'odd")
    check("\x1b" not in r.stdout + r.stderr, "names are shown without control characters")
    run(DLC, "import", written(strange), "-o", "strange.dl", status=3)
    run(DLC, "check", "strange.dl", status=3, says="onnx.com.x.Strange is not in the language, node odd")
    named = onnx.model([onnx.node("Add", ["input", "b c\n"], ["y"])], [onnx.tensor("b c\n", [4], [1, 2, 3, 4])],
                       inputs=[("input", ("N", 4))])
    run(DLC, "import", written(named), "-o", "named.dl", "--loss=mse")
    run(DLC, "check", "named.dl", says="ok")
    run(DLC, "import", DATA / "mixer.pt2", "--sizes=a=1", status=2, says="--sizes is for ONNX files")


def check_format():
    rough = "model A( b=2 ):\n  input x:f32[N,C = 3]\n  y = x*b\n  output y\n"
    (OUT / "rough.dl").write_text(rough)
    run(DLC, "fmt", "rough.dl", "--check", status=3, says="rough.dl")
    check((OUT / "rough.dl").read_text() == rough, "--check changes nothing")
    run(DLC, "fmt", "rough.dl")
    check((OUT / "rough.dl").read_text() == "model A(b=2):\n    input x: f32[N, C=3]\n    y = x * b\n    output y\n",
          "dlc fmt")
    run(DLC, "fmt", "rough.dl", "--check")
    (OUT / "wrong.dl").write_text("model A(:\n")
    run(DLC, "fmt", "wrong.dl", status=3, says="wrong.dl:1")
    check((OUT / "wrong.dl").read_text() == "model A(:\n", "a file with faults stays as it is")


made = [pathlib.Path(a) for a in sys.argv[2:] if not a.startswith("--")]
if made:
    for archive in sorted(made[0].glob("*.pt2")):
        compare(archive.stem, made[0])
    finish()
for name in ("mlp", "mixer", "convnext", "spectral", "tied", "states"):
    compare(name)
compare("mixer", file="mixer.script.onnx")
compare("convnext", file="convnext.onnx")
compare("states", file="states.script.onnx")
check_lacks()
check_onnx()
check_refusals()
check_hostile()
check_buffers()
check_words()
check_folder()
check_format()
finish()
