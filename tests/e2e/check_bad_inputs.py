#!/usr/bin/env python3
"""What a trained network must refuse: each is a sentence with a path or both shapes, an exit status of its kind, never
a signal; and the run stays as it was.

check_bad_inputs.py BUILD     from the project's root; needs nothing but Python's own library. The sanitized build runs
                              it, too: a fault of memory ends a program by a signal then. Calls of the library with the
                              same faults: tests/library/test_calls.c.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

from checks import ENV, TMP, check, finish, save_npy

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN = f"{BUILD}/cli/dlc", f"{BUILD}/cli/dlrun"
RUN = f"{TMP}/run"
MODEL = """model Net(c=4):
    input x: f32[N, C=2, W=16]
    target t: f32[N, C=1, W=16]
    y = x |> conv(c, 3, pad=1) @a |> relu |> conv(1, 3, pad=1) @b
    output y
    loss = mse_loss(y, t)
"""
CONFIG = ("base: {local_batch_size: 4, num_epochs: 1, keep_kernels: true, save_checkpoint: true, data: {inputs: {x: "
          "{file: x.npy, normalize: standardize}}, targets: {t: t.npy}, split: {valid: 0.25}}}\n")


def run(*words):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, errors="replace", cwd=TMP, env=ENV,
                          stdin=subprocess.DEVNULL, timeout=300)


def train():
    save_npy(f"{TMP}/x.npy", (16, 2, 16)), save_npy(f"{TMP}/t.npy", (16, 1, 16))
    pathlib.Path(TMP, "net.dl").write_text(MODEL), pathlib.Path(TMP, "net.yaml").write_text(CONFIG)
    r = run(DLRUN, "net.dl", "--yaml_config=net.yaml", f"--expdir={TMP}/runs")
    found = list(pathlib.Path(TMP, "runs").rglob("checkpoints"))
    if not check(r.returncode == 0 and len(found) == 1, f"trained: {r.returncode} {r.stderr[-900:]} {found}"):
        finish()
    shutil.copytree(found[0].parent, RUN, symlinks=True)


def digest(folder):
    """Names and contents of all files."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else ""
            for p in sorted(pathlib.Path(folder).rglob("*"))}


def refused(codes, pattern, *words, out=None):
    """A sentence; and nothing is where the output would have been."""
    before, r = digest(RUN), run(*words)
    said = (r.stdout + r.stderr).strip()
    sound = "Sanitizer" not in said and "runtime error" not in said
    check(r.returncode in codes and re.search(pattern, said, re.S) and sound,
          f"{words}: {r.returncode}, not {codes} and /{pattern}/: {said[-900:]}")
    check(not out or not os.path.exists(out), f"{words}: an output")
    check(digest(RUN) == before, f"{words}: the run is another one")


def refused_for_all(codes, pattern, network):
    """By everything that takes a trained network."""
    refused(codes, pattern, DLRUN, "predict", network, "x.npy", f"-o{TMP}/no.npy", out=f"{TMP}/no.npy")
    for kind in ("c", "onnx", "pytorch"):
        refused(codes, pattern, DLC, "export", network, f"-o{TMP}/no_{kind}", f"--as={kind}", out=f"{TMP}/no_{kind}")


def test_no_run():
    os.makedirs(f"{TMP}/empty/checkpoints"), os.makedirs(f"{TMP}/nothing")
    pathlib.Path(TMP, "short.safetensors").write_bytes(b"\0\0")
    pathlib.Path(TMP, "text.pt").write_text("no weights\n")
    for network, codes in (("/nowhere/at/all", (4,)), (f"{TMP}/nothing", (2, 3, 4)), (f"{TMP}/empty", (3, 4)),
                           (f"{TMP}/short.safetensors", (2, 3)), (f"{TMP}/text.pt", (2, 3)), (f"{TMP}/x.npy", (2, 3)),
                           (f"{TMP}/net.yaml", (2, 3)), ("/dev/null", (2, 3)), ("", (2, 4))):
        refused_for_all(codes, re.escape(os.path.basename(network)), network)


def test_damaged():
    """A checkpoint that lost a file, or its end."""
    last = os.path.realpath(f"{RUN}/checkpoints/last")
    for name in sorted(os.listdir(last)):
        for cut in (None, 0, 60):
            broken = f"{TMP}/broken"
            shutil.rmtree(broken, ignore_errors=True)
            shutil.copytree(last, broken)
            os.remove(f"{broken}/{name}") if cut is None else os.truncate(f"{broken}/{name}", cut)
            refused((3, 4), rf"broken|{re.escape(name)}", DLRUN, "predict", broken, "x.npy", f"-o{TMP}/no.npy",
                    out=f"{TMP}/no.npy")
            refused((3, 4), rf"broken|{re.escape(name)}", DLC, "export", broken, f"-o{TMP}/no.onnx", "--as=onnx",
                    out=f"{TMP}/no.onnx")


def test_arrays():
    """Another type, rank or size: the message has what is there and what is taken. No samples: no output."""
    shapes = {"rank": ((16, 2), "<f4"), "deep": ((2, 2, 2, 2, 16), "<f4"), "channels": ((16, 3, 16), "<f4"),
              "scalar": ((), "<f4"), "complex": ((16, 2, 16), "<c8"), "text": ((16, 2, 16), "<U3"),
              "none": ((0, 2, 16), "<f4")}
    for name, (shape, descr) in shapes.items():
        save_npy(f"{TMP}/{name}.npy", shape, descr)
        there = r".*f32\[N.*C=2, W=16\].*" if descr == "<f4" and 0 not in shape else ""
        size = "" if descr != "<f4" else "holds no samples" if 0 in shape else ", ".join(map(str, shape))
        refused((3,), rf"{name}\.npy{there}.*{size}", DLRUN, "predict", RUN, f"{name}.npy", f"-o{TMP}/no.npy",
                out=f"{TMP}/no.npy")
    save_npy(f"{TMP}/short.npy", (4, 2, 7))
    refused((3,), "7 positions along W, fewer than the 16 of the model's input", DLRUN, "predict", RUN, "short.npy",
            "--tiles=exact", f"-o{TMP}/no.npy", out=f"{TMP}/no.npy")
    with open(f"{TMP}/x.npy", "rb") as f:
        whole = f.read()
    for cut in (0, 5, 9, 60, 200, len(whole) - 1):
        pathlib.Path(TMP, "cut.npy").write_bytes(whole[:cut])
        refused((3,), r"cut\.npy", DLRUN, "predict", RUN, "cut.npy", f"-o{TMP}/no.npy", out=f"{TMP}/no.npy")
    refused((4,), "gone.npy", DLRUN, "predict", RUN, "gone.npy", f"-o{TMP}/no.npy")
    refused((2,), "17", DLRUN, "predict", RUN, "x.npy", "--samples=17:20", f"-o{TMP}/no.npy", out=f"{TMP}/no.npy")


def test_outputs():
    """Places where nothing can be written, and the run and its data themselves."""
    os.makedirs(f"{TMP}/full")
    pathlib.Path(TMP, "full/kept").write_text("kept")
    for out in ("/proc/no.npy", f"{TMP}/x.npy/no.npy", f"{TMP}/no/where.npy", f"{TMP}/full", "/dev/full/x.npy"):
        refused((2, 3, 4), re.escape(out.rsplit("/", 1)[0]), DLRUN, "predict", RUN, "x.npy", f"-o{out}")
    refused((2, 3, 4), "x.npy", DLRUN, "predict", RUN, "x.npy", f"-o{TMP}/x.npy")
    for kind in ("c", "onnx", "pytorch"):
        for out in ("/proc/no", f"{TMP}/x.npy/no", f"{TMP}/full"):
            refused((2, 3, 4), re.escape(out.rsplit("/", 1)[0]), DLC, "export", RUN, f"-o{out}", f"--as={kind}")
    check(os.listdir(f"{TMP}/full") == ["kept"], "a folder of others")
    check(run(DLRUN, "predict", RUN, "x.npy", f"-o{TMP}/y.npy").returncode == 0, "and it predicts")


def test_plans():
    """A plan of another device, of other settings, cut or of nothing."""
    r = run(DLC, "compile", "net.dl", "--yaml_config=net.yaml", "--target=cpu:generic", f"-o{TMP}/net.dlp")
    if not check(r.returncode == 0, f"compile: {r.stderr[-500:]}"):
        return
    predict = [DLRUN, "predict", f"{TMP}/plan.dlp", "x.npy", f"--weights={RUN}", f"-o{TMP}/no.npy"]
    whole = pathlib.Path(TMP, "net.dlp").read_bytes()
    for cut in (0, 3, 30, len(whole) // 2, len(whole) - 1):
        pathlib.Path(TMP, "plan.dlp").write_bytes(whole[:cut])
        refused((3,), r"plan\.dlp", *predict, out=f"{TMP}/no.npy")
    pathlib.Path(TMP, "plan.dlp").write_bytes(whole)
    refused((3,), "compiled for cpu:generic, and device is cuda", *predict, "--device=cuda:emulated",
            out=f"{TMP}/no.npy")
    refused((2,), "which weights", *predict[:4], f"-o{TMP}/no.npy", out=f"{TMP}/no.npy")
    refused((3, 4), "net.yaml", *predict[:4], f"--weights={TMP}/net.yaml", f"-o{TMP}/no.npy", out=f"{TMP}/no.npy")
    strange = whole.replace(b"cpu:generic", b"cpu:strange")
    pathlib.Path(TMP, "plan.dlp").write_bytes(strange)
    refused((3,), r"plan\.dlp", *predict, out=f"{TMP}/no.npy")


train()
test_no_run()
test_damaged()
test_arrays()
test_outputs()
test_plans()
finish()
