#!/usr/bin/env python3
"""The runtime's declarations of a library that makes kernels' products next to its own headers; the real library as far
as it goes without a GPU; a run whose products a stand-in of its shape makes, on an emulated device: what it asks of the
driver, the same bits again, gone on with, without the library.

    check_library.py NAME BUILD STANDIN
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import ENV, TMP, check, finish, run_points  # noqa: E402
from headers import COMPILER, FOLDERS, ROOT, SITES, compile_beside  # noqa: E402

# Small enough for the emulator: two linear layers; a few convolutions.
RUN = ["--data_loader_config=synthetic", "--limit_nsamples=6", "--limit_nsamples_val=4", "--local_batch_size=1",
       "--global_batch_size=1", "--num_iters=6",
       "--seed=1", "--device=cuda:emulated", "--threads=1"]
LIBRARIES = {
    "cublaslt": {"title": "cuBLASLt", "file": "libcublasLt.so", "soname": "libcublasLt.so.13", "header": "cublasLt.h",
                 "folders": "cu13",
                 "other": "130200", "model": ["tests/data/products.dl"]},
    "cudnn": {"title": "cuDNN", "file": "libcudnn.so.9", "soname": "libcudnn.so.9", "header": "cudnn.h",
              "folders": "cudnn",
              "other": "92700",
              "model": ["models/cnn_regressor.dl", "--config", "test", "--hidden=8", "--depth=2", "--data_size=8"]},
}


class Library:
    def __init__(self, name):
        self.name, self.upper = name, name.upper()
        self.__dict__.update(LIBRARIES[name])

    def headers(self):
        """Folders of its header, each with what else that includes."""
        cuda = [f for f in FOLDERS if os.path.exists(f"{f}/cuda_runtime.h")]
        own = [f"{site}/{self.folders}/include" for site in SITES] + cuda
        return [(f, f if f in cuda else cuda[0]) for f in dict.fromkeys(own) if os.path.exists(f"{f}/{self.header}")
                and cuda]

    def train(self, build, name, *more, **variables):
        return subprocess.run([f"{build}/cli/dlrun", *self.model, *RUN, "--tune=true", f"--run_num={name}",
                               f"--expdir={TMP}/runs", *more], text=True,
                              cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**ENV, "DLR_CACHE_DIR": f"{TMP}/real", **variables})


def check_declarations(of, build):
    for folder, more in of.headers() if COMPILER else []:
        said = compile_beside(f"{of.name}_header.c", folder, more)
        check(not said, f"{folder}/{of.header}: {said[:600]}")
    env = {k: v for k, v in os.environ.items() if k != f"DLR_{of.upper}"}
    done = subprocess.run([f"{build}/tests/cuda/{of.name}_check"], stdout=subprocess.PIPE, text=True, env=env)
    said = subprocess.run([f"{build}/cli/dlrun", "--version"], stdout=subprocess.PIPE, text=True, env=env).stdout
    if done.returncode == 77:
        check(f"no {of.title} ({of.file})" in said, f"--version: {said}")
        return
    check(done.returncode == 0 and " 0 descriptions refused; it begins: " in done.stdout, f"the library: {done.stdout}")
    check(re.search(rf"^{of.title} \d+\.\d+\.\d+ \(/.*\)$", said, re.M), f"--version: {said}")
    if "no driver" in said:
        # on the emulated device the real one is tried where it is named, and says in its own words what is missing
        real = done.stdout.split(": ")[0]
        done = of.train(build, "real", **{f"DLR_{of.upper}": real})
        check(done.returncode == 0
              and re.search(rf"{of.title} \(.*\) does not begin on this device: .*: it is not tried", done.stderr) and
              "by libraries" not in done.stderr, f"{real}: {done.returncode} {done.stderr[-800:]}")
    done = of.train(build, "none", **{f"DLR_{of.upper}": f"/none/{of.soname}"})
    check(done.returncode == 5 and f"DLR_{of.upper}" in done.stderr,
          f"no such file: {done.returncode} {done.stderr[-800:]}")


def losses(name):
    """Of validation, by whichever name the model's records have it."""
    runs = pathlib.Path(TMP, "runs").rglob(f"{name}/metrics.jsonl")
    return [p[key] for run in runs for p in run_points(run.parent) for key in ("Loss/valid", "val_loss") if key in p]


def choices(folder, names):
    """Of a cache's files those that are no objects."""
    # after the cache's own head
    return [name for name in names if b"\x7fELF" not in pathlib.Path(folder, name).read_bytes()[:64]]


def copy_objects(source, target):
    """Of a cache, where there is one: so that all is compiled, and nothing is chosen."""
    if os.path.exists(source):
        shutil.copytree(source, target, ignore=choices, dirs_exist_ok=True)


def check_runs(of, build, standin):
    log = pathlib.Path(TMP, "products")
    own = {f"DLR_{of.upper}": standin, f"{of.upper}_STANDIN_LOG": str(log), "DLR_CACHE_DIR": f"{TMP}/own"}
    copy_objects(f"{TMP}/real", f"{TMP}/own")
    first = of.train(build, "first", DLR_DEBUG="driver", **own)
    text = first.stderr + first.stdout
    check(first.returncode == 0 and re.search(r"tuned \d+ of \d+ kernels.*; \d+ by libraries", text),
          f"a run: {first.returncode} {text[-800:]}")
    check("driver: graph launches a step 1, synchronisations a step 0, allocations a step 0" in text,
          f"what it asks of the driver: {text[-600:]}")
    log.unlink(missing_ok=True)

    # nothing is tried again; the same bits, whole, in two parts and launch by launch; products go into the graphs once,
    # and into no step
    again = of.train(build, "again", **own)
    text = again.stderr + again.stdout
    products = log.read_text().splitlines() if log.exists() else []
    check(again.returncode == 0 and "tuned " not in text and losses("again") == losses("first") != [],
          f"again: {losses('again')}, {losses('first')}")
    check(0 < len(products) < 80, f"{len(products)} products of a captured run")
    part = of.train(build, "part", "--stop_after=3", **own)
    check(part.returncode == 75, f"stop_after: exit {part.returncode}: {part.stderr[-400:]}")
    part = of.train(build, "part", "--resume", **own)
    check(part.returncode == 0 and losses("part") and losses("part")[-1] == losses("first")[-1],
          f"gone on with: {part.returncode} {losses('part')}")
    slow = of.train(build, "slow", DLR_DEBUG="guard", **own)
    check(slow.returncode == 0 and losses("slow") == losses("first"),
          f"guarded: {slow.returncode} {losses('slow')} {slow.stderr[-600:]}")

    # without the library, and with another version: not by that choice
    log.unlink()
    bare = of.train(build, "bare", **{k: v for k, v in own.items() if k != f"DLR_{of.upper}"})
    check(bare.returncode == 0 and not log.exists() and "by libraries" not in bare.stderr + bare.stdout,
          f"without: {bare.stderr[-400:]}")
    other = of.train(build, "other", **{f"{of.upper}_STANDIN_VERSION": of.other}, **own)
    check(other.returncode == 0 and re.search(r"tuned \d+ of \d+ kernels", other.stderr + other.stdout),
          f"another version: {other.stderr[-400:]}")

    # what it makes wrongly is seen next to our own, named and left alone
    copy_objects(f"{TMP}/own", f"{TMP}/wrong")
    wrong = of.train(build, "wrong", **{**own, f"{of.upper}_STANDIN_WRONG": "1", "DLR_CACHE_DIR": f"{TMP}/wrong"})
    check(wrong.returncode == 0
          and re.search(rf"made as {of.title} [\d.]+, algorithm .* differs from .*: it is not used", wrong.stderr) and
          "ways rejected" in wrong.stderr + wrong.stdout and "by libraries" not in wrong.stderr + wrong.stdout,
          f"wrong: {wrong.returncode} {wrong.stderr[-800:]}")

    # a library that fails is named, with its kernel
    done = of.train(build, "failed", **{f"{of.upper}_STANDIN_FAULT": "1"}, **own)
    check(done.returncode not in (0, 75)
          and re.search(rf"failed in kernel '\w+' \({of.model[0]}:\d+\): {of.title}: ", done.stderr),
          f"a fault: {done.stderr[-400:]}")


def main(name, build, standin):
    of = Library(name)
    # objects of earlier runs of the tests
    kept = os.environ.get("DLC_TEST_CACHE") and f"{os.environ['DLC_TEST_CACHE']}/{name}"
    if kept:
        copy_objects(kept, f"{TMP}/real")
    check_declarations(of, build)
    check_runs(of, build, standin)
    if kept:
        copy_objects(f"{TMP}/own", kept)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
