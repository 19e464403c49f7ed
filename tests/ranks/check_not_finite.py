#!/usr/bin/env python3
"""One rank's samples make a value that is not finite: all ranks end with 7, and say of which rank it is, which op made
it, and where it stands in the model, though a sum over ranks has carried it to all of them by then.

    check_not_finite.py BUILD openmpi|mpich
"""
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
from check_faults import left  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish, save_file  # noqa: E402

HEAD = "model Root():\n    input  x: f32[N, C=6]\n    target t: f32[N, C=3]\n"
TAIL = "    output y\n    loss = mean((y - t)**2)\n"
# sqrt stands in line 4; a batch norm of all ranks' samples carries it on at once, in the middle of the way there
PLAIN = HEAD + "    h = sqrt(x) |> linear(8) @a\n    y = relu(h) |> linear(3) @b\n" + TAIL
SYNCED = HEAD + "    h = sqrt(x) |> linear(8) @a |> batch_norm @n\n    y = relu(h) |> linear(3) @b\n" + TAIL
SAMPLES, FEATURES = 4, 6


def write_batches(path, steps, bad):
    """Squares of numbers, and `bad`, {(step, sample): value}, in their midst."""
    draw, tensors = random.Random(3), {}
    for step in range(steps):
        x = [draw.gauss(0, 1) ** 2 for _ in range(SAMPLES * FEATURES)]
        for (at, sample), value in bad.items():
            if at == step:
                x[sample * FEATURES + 2] = value
        tensors[f"x.{step}"] = [SAMPLES, FEATURES], x
        tensors[f"t.{step}"] = [SAMPLES, 3], [draw.gauss(0, 1) for _ in range(SAMPLES * 3)]
    save_file(path, tensors)


def main(build, family):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-finite-"))
    dlrun = str(pathlib.Path(build) / "cli/dlrun")

    def start(ranks, text, bad, *args, steps=2, **env):
        name = f"{folder}/{time.time_ns()}"
        pathlib.Path(f"{name}.dl").write_text(text)
        write_batches(f"{name}.st", steps, bad)
        done = subprocess.run([dlrun, "-n", str(ranks), f"{name}.dl", f"--replay={name}.st", f"--expdir={name}",
                               "--global_batch_size=4",
                               "--threads=1", "--comm_timeout=20", *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True,
                              env={**mpi.environment(), "DLR_MPIRUN": mpirun, **env})
        said = [line for line in done.stderr.splitlines() if "dlrun: error" in line]
        check(done.returncode == 7 and len(said) == 1 and said[0].startswith("rank 0: "),
              f"exit {done.returncode}: {done.stderr[-600:]}")
        for _ in range(50):
            if not left(name):
                break
            time.sleep(0.1)
        check(not left(name), f"processes {left(name)} are left")
        return said[0] if said else ""

    def names(said, pattern, what):
        check(re.search(pattern, said), f"{what}: {said}")

    made = (r"the first value that is not finite is made by '(sqrt|contract)' \(\S+\.dl:4\), at \[N=\d[^]]*\], on rank "
            r"{}, or before it")
    # in the last step, of the last of two ranks; each of its own share of four; in an earlier step than the loss is
    # lost in
    said = start(2, PLAIN, {(1, 3): -4})
    names(said, r"loss is not finite at step 2\. Step 2 repeated: " + made.format(1), "a root")
    said = start(4, SYNCED, {(1, 2): -4}, "--sync_batch_norm")
    names(said, r"Step 2 repeated: " + made.format(2), "a root, and a batch norm of all")
    said = start(2, PLAIN, {(0, 0): 1, (1, 2): float("inf")}, "--sync_batch_norm")
    names(said, r"Step 2 repeated: not finite is the input 'x', at \[N=0, C=2\], on rank 1", "an input")
    # watched from the beginning; and a scale of fp16 that has come to its floor
    said = start(2, SYNCED, {(1, 3): -4}, "--sync_batch_norm", DLR_DEBUG="nan")
    names(said, r"step 2: " + made.format(1) + r".*DLR_DEBUG=nan", "watched")
    said = start(2, PLAIN, {(0, 3): float("inf"), (1, 3): float("inf")}, "--amp_mode=fp16", "--loss_scale_init=0.0002")
    names(said, r"loss scale has come down .* Not finite is the input 'x', at \[N=1, C=2\], on rank 1\b",
          "the scale's floor")
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
