"""Fails each request to the system that a command makes, one after the other, and looks at how the command ends.

sweep.py SHIM PROGRAMS [--every N] [--only NAME]     PROGRAMS: the build directory

For each command and kind (memory, files) and k = 1, 2, ... until the command makes no k-th request: once with the k-th
failing, once with all from the k-th on. It must end with a documented status; one that is not 0 has said why; nothing
it was given is changed; what it leaves is whole or not there, temporaries gone; and where it saved checkpoints, one
loads. Commands that train are also killed in place of the k-th request on files: started again with --resume they end
with the bits of a run that was never killed. --every N takes every N-th k, another residue for each command.
"""
import argparse
import concurrent.futures
import filecmp
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

DOCUMENTED = {0, 2, 3, 4, 5, 6, 7, 75}
MODEL = "tests/data/small.dl"
SMALL = ["--data_loader_config=synthetic", "--data_size=8", "--local_batch_size=2", "--Nsamples=4", "--Nsamples_val=2",
         "--num_epochs=1", "--start_lr=1e-3", "--threads=1", "--log_to_wandb"]

parser = argparse.ArgumentParser()
parser.add_argument("shim")
parser.add_argument("programs")
parser.add_argument("--every", type=int, default=1)
parser.add_argument("--only")
options = parser.parse_args()
shim, build = os.path.abspath(options.shim), pathlib.Path(options.programs).resolve()
passed, failures = 0, []
work = tempfile.TemporaryDirectory(prefix="dlc_sweep_")
root = pathlib.Path(work.name)


def program(name):
    return str(build / "cli" / name)


def whole_safetensors(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    ends = [v["data_offsets"][1] for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"]
    return len(raw) == 8 + n + max(ends, default=0)


def whole_png(path):
    raw = path.read_bytes()
    at = 8
    while at < len(raw):  # chunks: length, name, data, CRC of the last two
        n = struct.unpack(">I", raw[at:at + 4])[0]
        if zlib.crc32(raw[at + 4:at + 8 + n]) != struct.unpack(">I", raw[at + 8 + n:at + 12 + n])[0]:
            return False
        at += 12 + n
    return raw[-8:-4] == b"IEND"


def whole_plan(path):
    return struct.unpack("<Q", path.read_bytes()[16:24])[0] == path.stat().st_size


WHOLE = {".safetensors": whole_safetensors, ".png": whole_png, ".dlp": whole_plan,
         ".json": lambda p: bool(json.loads(p.read_text()))}


def is_hidden(path):
    """Part of something unfinished, as its name says: a temporary, or a checkpoint that never was one."""
    return any(part.startswith(".") or part.endswith((".tmp", ".old")) or ".tmp" in part for part in path.parts)


def torn(folder):
    """What a command left that is neither whole nor marked as unfinished, and temporaries of its outputs."""
    for path in folder.rglob("*"):
        rel = path.relative_to(folder)
        if path.name.startswith(".dlc-") and path.is_file() and not is_hidden(rel.parent):  # of directories: run()
            yield f"the temporary {rel} was left"
        if path.is_file() and not is_hidden(rel) and path.suffix in WHOLE:
            try:
                if not WHOLE[path.suffix](path):
                    yield f"{rel} is not whole"
            except (ValueError, struct.error, KeyError) as e:
                yield f"{rel} is not whole: {e}"


# name: (program, arguments; {} is the command's own folder)
COMMANDS = {
    "check": ("dlc", ["check", MODEL]),
    "opt": ("dlc",
            ["opt", "--passes=simplify,layout,fuse,schedule,plan_memory", "tests/golden/passes/training_step.in.dlir"]),
    "dump": ("dlc", ["compile", MODEL, "--data_size=8", "--dump=kernel"]),
    "compile": ("dlc", ["compile", MODEL, "--data_size=8", "--local_batch_size=1", "-o", "{}/m.dlp"]),
    "plan": ("dlrun", ["{}/given.dlp", "--log_to_wandb=false", "--expdir={}/run"]),
    "train": ("dlrun", [MODEL, *SMALL, "--expdir={}/run"]),
    "resume": ("dlrun", [MODEL, *SMALL, "--num_epochs=2", "--resume", "--expdir={}/run"]),
    "simulate": ("dldata", ["nbody", "--size=16", "-o", "{}/v.h5"]),
    "weather": ("dldata", ["weather", "--size=8x16", "--years=1", "--samples=2", "--spin-up=0", "-o", "{}/w"]),
    "images": ("dldata", ["images", "--train=5", "--valid=1", "-o", "{}/c"]),
    "jpegs": ("dldata", ["images", "--jpeg", "--train=5", "--valid=1", "--side=16", "-o", "{}/j"]),
    "fields": ("dldata", ["fields", "--samples=2", "--size=8", "-o", "{}/f.h5"]),
    "inspect": ("dldata", ["inspect", "{}/given.npy", "-o", "{}/given.png"]),
}


def environment(folder, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FAULT_")}
    # The requests are those of our programs: the compiler's work is done once.
    return {**env, "DLR_CACHE_DIR": str(folder / "cache"), "CC": f"{build}/tests/compile_once cc", **more}


def prepare(name):
    """A folder in which the command works, to be copied for each run."""
    folder = root / name
    folder.mkdir()
    (folder / "given.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) +
                                       b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(117) +
                                       b"\n" + bytes(24))
    if name == "plan":
        done = subprocess.run([program("dlc"), "compile", MODEL, *SMALL, "-o", str(folder / "given.dlp")],
                              env=environment(folder),
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"sweep: the plan of '{name}' is not compiled: {done.stderr}")
    if name in ("train", "resume"):  # the kernels are there: the compiler's own requests are not ours
        args = [a.format(folder) for a in COMMANDS["train"][1]]
        done = subprocess.run([program("dlrun"), *args], env=environment(folder), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"sweep: the command to prepare '{name}' failed: {done.stderr}")
        if name == "train":
            shutil.rmtree(folder / "run")
    return folder


def run(name, kind, k, ever):
    """(requests made, what is wrong or None)"""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}_", dir=root))
    try:
        shutil.copytree(root / name, folder, dirs_exist_ok=True, symlinks=True)
        of, args = COMMANDS[name]
        env = environment(folder, LD_PRELOAD=shim, FAULT_OF=of, FAULT_KIND=kind, FAULT_AT=str(k),
                          FAULT_COUNT=str(folder / "count"),
                          **({"FAULT_EVER": "1"} if ever else {}))
        done = subprocess.run([program(of), *(a.format(folder) for a in args)], env=env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        what = f"{name}, {kind}, request {k}{' and all after it' if ever else ''}: exit {done.returncode}"
        n = int((folder / "count").read_text()) if (folder / "count").exists() else None
        if done.returncode not in DOCUMENTED:
            return n, f"{what}: {done.stderr[-300:]}"
        # stderr itself may fail for ever
        if done.returncode and not done.stderr.strip() and not (ever and kind == "files"):
            return n, f"{what} without a word"
        if not filecmp.cmp(root / name / "given.npy", folder / "given.npy", shallow=False):
            return n, f"{what}: its input was changed"
        for t in torn(folder):
            return n, f"{what}: {t}"
        if any(p.is_dir() for p in folder.glob(".dlc-*")):  # it took memory to remove it: the next run clears it away
            again = subprocess.run([program(of), *(a.format(folder) for a in args)], env=environment(folder),
                                   capture_output=True, text=True,
                                   stdin=subprocess.DEVNULL)
            if again.returncode != 0 or any(folder.glob(".dlc-*")):
                return n, f"{what}: the next run does not clear away an unfinished directory: {again.stderr[-300:]}"
        if name == "resume":  # whatever happened, the run can go on
            again = subprocess.run([program(of), *(a.format(folder) for a in args)], env=environment(folder),
                                   capture_output=True, text=True,
                                   stdin=subprocess.DEVNULL)
            if again.returncode != 0:
                return n, f"{what}: the run cannot go on: {again.stderr[-300:]}"
        return n, None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def result_of(folder):
    """The points of a run without what a clock says, and what its newest checkpoint holds."""
    run = folder / "run/small-base/1GPU/00"
    points = [{k: v for k, v in json.loads(line).items() if k not in ("Avg iters per sec", "Data wait time")}
              for line in (run / "metrics.jsonl").read_text().splitlines()]
    return points, *((run / "checkpoints/last" / f).read_bytes()
                     for f in ("model.safetensors", "optimizer.safetensors"))


def die(name, k):
    """The same for a command that is killed in place of request k, and goes on: (None, what is wrong or None)"""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}_", dir=root))
    try:
        shutil.copytree(root / name, folder, dirs_exist_ok=True, symlinks=True)
        of, args = COMMANDS[name]
        command = [program(of), *(a.format(folder) for a in args)]
        env = environment(folder, LD_PRELOAD=shim, FAULT_OF=of, FAULT_KIND="files", FAULT_AT=str(k),
                          FAULT_KILL="1") if k else environment(folder)
        done = subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if k and done.returncode == -9:
            for t in torn(folder):
                if "temporary" not in t:
                    return None, f"{name} killed at {k}: {t}"
            done = subprocess.run([*command, "--resume"], env=environment(folder), capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            return None, f"{name} killed at {k}: it ends with {done.returncode}: {done.stderr[-300:]}"
        result = result_of(folder)
        if not k:
            unbroken[name] = result
        return None, None if result == unbroken[
            name] else f"{name} killed at {k}: other bits than of the run that was not"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


unbroken = {}


def sweep_kills(name, offset):
    die(name, 0)
    count, wrong = run(name, "files", 0, False)
    ks = range(1 + offset % options.every, (count or 0) + 1, options.every)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [w for _, w in pool.map(lambda k: die(name, k), ks) if w]
    return len(ks) - len(faults), faults + ([wrong] if wrong else [])


def sweep(name, kind, ever, offset):
    prepare_count, wrong = run(name, kind, 0, False)
    if wrong or not prepare_count:
        return 0, [wrong or f"{name}: {kind}: no requests were counted"]
    faults = []
    ks = range(1 + offset % options.every, prepare_count + 1, options.every)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _, wrong in pool.map(lambda k: run(name, kind, k, ever), ks):
            if wrong:
                faults.append(wrong)
    return len(ks) - len(faults), faults


for i, name in enumerate(COMMANDS):
    if options.only and options.only != name:
        continue
    prepare(name)
    for j, kind in enumerate(("memory", "files")):
        for ever in (False, True):
            good, faults = sweep(name, kind, ever, 7 * i + 3 * j + ever)
            passed += good
            failures += faults
            print(f"{name:8} {kind:6} {'for ever' if ever else 'once':8} {good:6} good, {len(faults)} not", flush=True)
            for fault in faults[:5]:
                print(f"  {fault}")
    if COMMANDS[name][0] == "dlrun":
        good, faults = sweep_kills(name, 7 * i + 5)
        passed += good
        failures += faults
        print(f"{name:8} killed         {good:6} good, {len(faults)} not", flush=True)
        for fault in faults[:5]:
            print(f"  {fault}")
print(f"{passed} passed, {len(failures)} failed")
sys.exit(bool(failures))
