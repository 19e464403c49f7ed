#!/usr/bin/env python3
"""What a run asks of a GPU's driver, on the emulated device: one graph for each batch of training, evaluation and
prediction, and no launch outside of them; and what it says of a device that other programs use, too.

check_driver_calls.py DLRUN     from the project's root (77: there is no C++ compiler, so that nothing is emulated)
"""
import pathlib
import re
import shutil
import subprocess
import sys

from checks import ENV, TMP, check, finish, save_npy

DLRUN = str(pathlib.Path(sys.argv[1]).resolve())
DEVICE = "--device=cuda:emulated"
BATCH, STEPS, VALID, EPOCHS = 2, 4, 3, 2
MODEL = ["tests/data/small.dl", "--data_size=8"]
TRAIN = [*MODEL, "--data_loader_config=synthetic", f"--global_batch_size={BATCH}", f"--Nsamples={BATCH * STEPS}",
         f"--Nsamples_val={BATCH * VALID}", f"--num_epochs={EPOCHS}"]


def run(*args, **environment):
    return subprocess.run([DLRUN, *args, DEVICE], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**ENV, **environment})


def one_graph_each(name, done, batches):
    """Runs are those of all batches; each is one graph, and launches nothing in addition."""
    found = re.search(r"driver: in all (\d+) runs, (\d+) graph launches, (\d+) kernels launched outside of graphs",
                      done.stderr)
    counts = tuple(map(int, found.groups())) if found else None
    check(done.returncode == 0 and counts == (batches, batches, 0),
          f"{name}: exit {done.returncode}, {counts} for {batches} batches: {done.stderr[-400:]}")


def test_graphs():
    """A run begins with the loss of one batch of either kind, before its first step."""
    r = run(*TRAIN, f"--expdir={TMP}/run", DLR_DEBUG="driver")
    one_graph_each("training and evaluation", r, EPOCHS * (STEPS + VALID) + 2)
    folder = next(pathlib.Path(f"{TMP}/run").rglob("checkpoints")).parent
    save_npy(f"{TMP}/x.npy", (5, 4, 8, 8, 8)), save_npy(f"{TMP}/t.npy", (5, 5, 8, 8, 8))
    predict = ["predict", str(folder), f"{TMP}/x.npy", "-o", f"{TMP}/y.npy"]
    one_graph_each("prediction", run(*predict, DLR_DEBUG="driver"), 3)  # two, two and one
    one_graph_each("prediction and its metrics", run(*predict, "--metrics", f"--target={TMP}/t.npy",
                                                     DLR_DEBUG="driver"), 3 + 3)


NUMBER = r"([\d.]+)"


def memory_line(text):
    """MiB that are free, the device's, those that others hold, and the run's, as the log has them."""
    found = re.search(rf"device cuda:emulated: {NUMBER} of {NUMBER} MiB free, {NUMBER} held by other programs and the "
                      rf"driver's context; this run takes {NUMBER}: {NUMBER} of the plan, about {NUMBER} of code and "
                      rf"{NUMBER} of graphs", text)
    return [float(n) for n in found.groups()] if found else []


def test_others():
    """The emulated context takes 256 MiB; its device has 4 GiB here or more."""
    for others in (0, 1000):
        r = run(*TRAIN, f"--expdir={TMP}/others{others}", CUDA_EMULATOR_OTHERS=str(others))
        line = memory_line(r.stderr)
        check(r.returncode == 0 and len(line) == 7, f"exit {r.returncode} {r.stderr[-600:]}")
        if len(line) == 7:
            free, total, held, takes, *parts = line
            check(abs(free + held - total) < 0.2 and abs(held - others - 256) < 0.2 and abs(takes - sum(parts)) < 0.2,
                  f"{others} MiB of others: {line}")
    r = run(*TRAIN, f"--expdir={TMP}/full", CUDA_EMULATOR_OTHERS=str(1 << 30))
    said = re.search(rf"this run needs {NUMBER} MiB of memory on .*, and {NUMBER} of its {NUMBER} MiB are free, since "
                     rf"other programs and the driver's context hold {NUMBER}: ", r.stderr)
    check(r.returncode == 5 and said and float(said[1]) > 0 and float(said[2]) == 0 and said[3] == said[4],
          f"a full device: exit {r.returncode} {r.stderr[-600:]}")
    check(0 <= r.stderr.find("held by other programs") < r.stderr.find("this run needs"),
          f"the figures come first: {r.stderr[-900:]}")


if not any(map(shutil.which, ("c++", "g++", "clang++"))):
    print("SKIP: no C++ compiler: nothing is emulated")
    sys.exit(77)
for test in [v for k, v in list(globals().items()) if k.startswith("test_")]:
    test()
finish()
