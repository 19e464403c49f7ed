#!/usr/bin/env python3
"""The runtime's declarations of cuBLASLt beside its own headers; the real library as far as it goes without a GPU; a run whose products a
stand-in of its shape makes, on an emulated device: what it asks of the driver, the same bits again, gone on with, without the library.

    check_cublaslt.py BUILD STANDIN
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import ENV, TMP, check, finish  # noqa: E402

SITES = [f"{os.path.expanduser('~')}/.cache/dlc-bench/lib/python3*/site-packages/nvidia", "/usr/lib/python3/dist-packages/nvidia"]
ROOT = pathlib.Path(__file__).parents[2]
# Small enough for the emulator: a block of a transformer.
MODEL = ["models/vit.dl", "--config", "tiny", "--embed_dim=16", "--depth=1", "--data_loader_config=synthetic", "--limit_nsamples=6",
         "--limit_nsamples_val=4", "--local_batch_size=1", "--global_batch_size=1", "--num_iters=6", "--seed=1", "--device=cuda:emulated", "--threads=1"]


def headers():
    """Folders of a header of cuBLASLt."""
    found = [f"{site}/cu13/include" for pattern in SITES for site in glob.glob(pattern)]
    found += ["/usr/local/cuda/include", *glob.glob("/usr/local/cuda-1*/include"), "/usr/include", "/usr/local/include"]
    return [f for f in found if os.path.exists(f"{f}/cublasLt.h") and os.path.exists(f"{f}/cuda_runtime.h")]


def check_declarations(build):
    compiler = shutil.which("gcc") or shutil.which("cc")
    command = [compiler, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}"]
    for folder in headers() if compiler else []:
        done = subprocess.run([*command, f"-isystem{folder}", str(ROOT / "tests/cuda/cublaslt_header.c")], stderr=subprocess.PIPE, text=True)
        check(done.returncode == 0, f"{folder}/cublasLt.h: {done.stderr[:600]}")
    env = {k: v for k, v in os.environ.items() if k != "DLR_CUBLASLT"}
    done = subprocess.run([f"{build}/tests/cuda/cublaslt_check"], stdout=subprocess.PIPE, text=True, env=env)
    said = subprocess.run([f"{build}/programs/dlrun", "--version"], stdout=subprocess.PIPE, text=True, env=env).stdout
    if done.returncode == 77:
        check("no cuBLASLt (libcublasLt.so)" in said, f"--version: {said}")
        return
    check(done.returncode == 0 and " 0 descriptions refused; it begins: " in done.stdout, f"the library: {done.stdout}")
    check(re.search(r"^cuBLASLt 1\d\.\d+\.\d+ \(/.*\)$", said, re.M), f"--version: {said}")
    if "no driver" in said:
        # on the emulated device the real one is tried where it is named, and says in its own words what is missing
        real = done.stdout.split(": ")[0]
        done = train(build, "real", DLR_CUBLASLT=real)
        check(done.returncode == 0 and re.search(r"cuBLASLt \(.*\) does not begin on this device: .*: it is not tried", done.stderr) and
              "by libraries" not in done.stderr, f"{real}: {done.returncode} {done.stderr[-800:]}")
    done = train(build, "none", DLR_CUBLASLT="/none/libcublasLt.so.13")
    check(done.returncode == 5 and "DLR_CUBLASLT" in done.stderr, f"no such file: {done.returncode} {done.stderr[-800:]}")


def train(build, name, *more, **variables):
    return subprocess.run([f"{build}/programs/dlrun", *MODEL, "--tune=true", f"--run_num={name}", f"--expdir={TMP}/runs", *more], text=True, cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENV, **variables})


def losses(name):
    points = [json.loads(line) for p in pathlib.Path(TMP, "runs").rglob(f"{name}/metrics.jsonl") for line in p.read_text().splitlines()]
    return [p["Loss/valid"] for p in points if "Loss/valid" in p]


def check_runs(build, standin):
    log = pathlib.Path(TMP, "products")
    own = {"DLR_CUBLASLT": standin, "CUBLASLT_STANDIN_LOG": str(log), "DLR_CACHE_DIR": f"{TMP}/own"}
    first = train(build, "first", DLR_DEBUG="driver", **own)
    text = first.stderr + first.stdout
    check(first.returncode == 0 and re.search(r"tuned \d+ of \d+ kernels.*; \d+ by libraries", text), f"a run: {first.returncode} {text[-800:]}")
    check("driver: graph launches a step 1, synchronisations a step 0, allocations a step 0" in text, f"what it asks of the driver: {text[-600:]}")
    log.unlink(missing_ok=True)

    # nothing is tried again; the same bits, whole, in two parts and launch by launch; products go into the graphs once, and into no step
    again = train(build, "again", **own)
    text = again.stderr + again.stdout
    products = log.read_text().splitlines() if log.exists() else []
    check(again.returncode == 0 and "tuned " not in text and losses("again") == losses("first") != [], f"again: {losses('again')}, {losses('first')}")
    check(0 < len(products) < 80, f"{len(products)} products of a captured run")
    part = train(build, "part", "--stop_after=3", **own)
    check(part.returncode == 75, f"stop_after: exit {part.returncode}: {part.stderr[-400:]}")
    part = train(build, "part", "--resume", **own)
    check(part.returncode == 0 and losses("part") and losses("part")[-1] == losses("first")[-1], f"gone on with: {part.returncode} {losses('part')}")
    slow = train(build, "slow", DLR_DEBUG="guard", **own)
    check(slow.returncode == 0 and losses("slow") == losses("first"), f"guarded: {slow.returncode} {losses('slow')} {slow.stderr[-600:]}")

    # without the library, and with another version: not by that choice
    log.unlink()
    bare = train(build, "bare", **{k: v for k, v in own.items() if k != "DLR_CUBLASLT"})
    check(bare.returncode == 0 and not log.exists() and "by libraries" not in bare.stderr + bare.stdout, f"without: {bare.stderr[-400:]}")
    other = train(build, "other", CUBLASLT_STANDIN_VERSION="130200", **own)
    check(other.returncode == 0 and re.search(r"tuned \d+ of \d+ kernels", other.stderr + other.stdout), f"another version: {other.stderr[-400:]}")

    # a library that fails is named, with its kernel
    done = train(build, "failed", CUBLASLT_STANDIN_FAULT="1", **own)
    check(done.returncode not in (0, 75) and re.search(r"failed in kernel '\w+' \(models/vit.dl:\d+\): cuBLASLt: ", done.stderr), f"a fault: {done.stderr[-400:]}")


def main(build, standin):
    check_declarations(build)
    check_runs(build, standin)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
