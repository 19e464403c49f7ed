#!/usr/bin/env python3
"""Every system's quick trial as scripts/quickstart runs it, from its data to its result, by a few steps of training.

check_trials.py BUILD     from the project's root; needs nothing but Python's own library

The checkout has links, and models of its own, so that data and runs are the test's. Packages and the build are there
already.
"""
import json
import os
import re
import shutil
import subprocess
import sys

from checks import ENV, SHARE, TMP, check, finish, narrowed

BUILD = os.path.abspath(sys.argv[1])
HOUSE = f"{TMP}/checkout"


def quickstart(*args):
    return subprocess.run([f"{HOUSE}/scripts/quickstart", *args], capture_output=True, text=True, env=ENV,
                          stdin=subprocess.DEVNULL)


def trial(system, at, tags, *keys):
    """The points of the run that a trial left in `at`; what it printed."""
    r = quickstart(f"--system={system}", "--no-build", *keys)
    check(r.returncode == 0, f"{system}: exit {r.returncode}: {r.stdout[-300:]} {r.stderr[-600:]}")
    try:
        with open(f"{HOUSE}/{at}/metrics.jsonl") as f:
            found = [json.loads(line) for line in f]
    except OSError as e:
        check(False, f"{system}: {e}")
        return [], r.stdout
    check(found and tags <= set(found[-1]), f"{system}: {found[-1:]}")
    check("== result" in r.stdout and f"{at}/out.log" in r.stdout and f"{at}/checkpoints/last" in r.stdout,
          f"{system}: {r.stdout[-900:]}")
    check(re.search(r"\n +1 +\d+\.\d{5} +\d+\.\d{5}  #", r.stdout), f"{system}, no losses: {r.stdout[-900:]}")
    return found, r.stdout


def test_trials():
    common = {"Loss/train", "Loss/valid", "Learning Rate", "Avg iters per sec"}
    short = ["--num_epochs=2", "--Nsamples=16", "--Nsamples_val=4"]
    if SHARE > 1:  # the first universe is quickstart's own
        r = subprocess.run([f"{BUILD}/cli/dldata", "nbody", "-o", f"{HOUSE}/data/nbody_valid.h5", "--size=32",
                            "--seed=1"], capture_output=True, text=True)
        check(r.returncode == 0, f"a universe: {r.stderr}")
    found, _ = trial("A", "runs/tiny/1GPU/00", common, *short)
    check(found and found[-1]["Loss/valid"] < found[0]["Loss/valid"], f"A learns: {found}")
    found, out = trial("A", "runs/tiny/1GPU/01", common, "--num_epochs=1", "--Nsamples=4", "--Nsamples_val=4")
    check("data/nbody_train.h5 is there" in out and "$ dldata" not in out, f"A again: {out[:900]}")

    small = ["--data_size=16", "--hidden=8", "--max_epochs=2"]
    tracked = {"train_loss", "val_loss", "learning_rate", "time_per_epoch", "best_val_loss", "best_epoch"}
    for system, at, tags in ("B", "outputs/test", tracked), ("C", "expts/test", tracked | {"grad", "wt_norm"}):
        found, _ = trial(system, f"{at}/00", tags, *small)
        check(len(found) == 2 and found[1]["train_loss"] < found[0]["train_loss"], f"{system} learns: {found}")
        check(os.path.exists(f"{HOUSE}/{at}/00/checkpoints/ckpt_best.tar"), f"{system}: no ckpt_best.tar")

    if SHARE > 1:  # a year of it, where it is simulated by the test itself
        r = subprocess.run([f"{BUILD}/cli/dldata", "weather", "-o", f"{HOUSE}/data/weather", "--size=32x64",
                            "--years=1"], capture_output=True, text=True)
        check(r.returncode == 0, f"weather: {r.stderr}")
    found, out = trial("D", "runs/tiny/1GPU/02", common | {"Avg samples per sec", "RMSE(u10m)/valid"}, "--num_iters=16")
    check(found and found[-1]["RMSE(u10m)/valid"] < found[0]["RMSE(u10m)/valid"], f"D learns: {found}")
    check(re.search(r"RMSE\(u10m\)/valid +\d+\.\d+ at first, \d+\.\d+ at last", out), f"D: {out[-900:]}")

    if SHARE > 1:  # few pictures, where they are drawn by the test itself
        r = subprocess.run([f"{BUILD}/cli/dldata", "images", "-o", f"{HOUSE}/data/pictures", "--train", "640",
                            "--valid", "256"], capture_output=True, text=True)
        check(r.returncode == 0, f"pictures: {r.stderr}")
    found, out = trial("E", "runs/cifar10-cnn", {"Loss/train", "Loss/valid", "accuracy/valid", "time_per_epoch"},
                       "--n_epochs=1", "--n_train=320", "--n_valid=128")
    check(len(found) == 1 and found[0]["iteration"] == 5, f"E: {found}")


def test_usage():
    for args in ["--system=F"], ["--system"], ["--help"], ["A"]:
        r = quickstart(*args)
        check(r.returncode == 2 and "--system=A|B|C|D|E" in r.stderr and r.stdout == "",
              f"{args}: exit {r.returncode} {r.stdout} {r.stderr}")
    r = quickstart("--no-build", "--no_such_key=1")
    check(r.returncode == 2 and "no_such_key" in r.stderr,
          f"a key that nobody has: exit {r.returncode} {r.stderr[-300:]}")


os.mkdir(HOUSE)
os.mkdir(f"{HOUSE}/data")
for name, path in ("scripts", os.path.abspath("scripts")), ("build", BUILD):
    os.symlink(path, f"{HOUSE}/{name}")
shutil.copytree("models", f"{HOUSE}/models")
if SHARE > 1:  # an eighth of the U-Net's channels: what it computes is the matter of the oracles
    with open(f"{HOUSE}/models/unet.dl", "r+") as f:
        text = narrowed(f.read(), 8)
        f.seek(0), f.write(text), f.truncate()
for test in test_trials, test_usage:
    test()
finish()
