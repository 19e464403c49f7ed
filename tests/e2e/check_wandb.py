"""log_to_wandb: the offline files of Weights & Biases that a run leaves, read by wandb_file.py, next to metrics.jsonl.

check_wandb.py DLRUN     from the project's root; needs nothing but Python's own library, and a C compiler
"""
import glob
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

from checks import ENV, TMP, Gate, check, finish
from wandb_file import Damaged, Run, decoded

DLRUN = os.path.abspath(sys.argv[1])
for variable in [v for v in ENV if v.startswith("WANDB_")]:
    del ENV[variable]
# What system C's script logs each epoch, and what we add.
THEIRS = {"train_loss", "val_loss", "grad", "wt_norm", "learning_rate", "time_per_epoch", "best_val_loss", "best_epoch",
          "vis"}
OURS = {"data_wait_time", "Visualization", "epoch", "iteration", "_step", "_timestamp", "_runtime"}
TIMES = {"time_per_epoch", "data_wait_time", "_timestamp", "_runtime"}


def command(name, *more):
    return [DLRUN, "models/cnn_regressor.dl", "--yaml_config=tests/data/theirs/c.yaml", "--config=test2", "--hidden=4",
            "--depth=3", "--data_size=8",
            "--batch_size=4", "--Nsamples=16", "--Nsamples_val=8", "--device=cpu", f"--root_dir={TMP}/{name}", *more]


def run(name, *more, rc=0, **env):
    r = subprocess.run(command(name, *more), capture_output=True, text=True, env={**ENV, **env},
                       stdin=subprocess.DEVNULL)
    check(r.returncode == rc, f"{name} {more}: exit {r.returncode}, not {rc}: {r.stderr[-800:]}")
    r.folder = f"{TMP}/{name}/expts/test2/0"
    return r


def read(folder):
    """The run that its link names, or None."""
    try:
        return Run(f"{folder}/wandb")
    except (Damaged, OSError, ValueError) as e:
        check(False, f"{folder}: {type(e).__name__}: {e}")


def points(folder):
    with open(f"{folder}/metrics.jsonl") as f:
        return [json.loads(line) for line in f]


def steady(history):
    """What two runs have alike: no times; of pictures the digest."""
    return [{k: v["sha256"] if isinstance(v, dict) else v for k, v in p.items() if k not in TIMES} for p in history]


def check_beside_metrics(w, folder):
    """Every value of metrics.jsonl is there, bit for bit."""
    lines = points(folder)
    check(len(lines) == len(w.history), f"{len(lines)} points and {len(w.history)}")
    for p, h in zip(lines, w.history):
        check(h["_step"] == p["epoch"] and all(h.get(k) == v for k, v in p.items()), f"{h} next to {p}")


def check_pictures(w):
    listed = {f for files in w.all("files") for f in files}
    check("wandb-metadata.json" in listed and all(os.path.isfile(f"{w.folder}/files/{f}") for f in listed), f"{listed}")
    for p in w.history:
        for key in ("vis", "Visualization"):
            v = p[key]
            with open(f"{w.folder}/files/{v['path']}", "rb") as f:
                png = f.read()
            check(v["_type"] == "image-file" and v["format"] == "png" and v["size"] == len(png)
                  and v["sha256"] == hashlib.sha256(png).hexdigest(), f"{v}")
            check(png[:8] == b"\x89PNG\r\n\x1a\n"
                  and (v["width"], v["height"]) == tuple(int.from_bytes(png[i:i + 4], "big") for i in (16, 20)), f"{v}")
            check(v["path"] in listed and f"/{key}_{p['_step']}_" in v["path"], f"{v['path']}")


def test_whole():
    """A run of system C's own file, from its first record to its last."""
    begun = time.time()
    r = run("whole", "--max_epochs=4")
    w = read(r.folder)
    if not w:
        return
    kinds = [k for k, _ in w.records]
    check(kinds == ["header", "run", "files"] + ["files", "files", "summary", "history"] * 4 + ["exit", "final"]
          and w.exit == [0], f"{kinds}")
    check(re.fullmatch(r"offline-run-\d{8}_\d{6}-" + w.run["run_id"], os.path.basename(w.folder))
          and re.fullmatch("[a-z0-9]{8}", w.run["run_id"]), w.folder)
    check(os.path.dirname(w.folder) == os.path.realpath(f"{r.folder}/wandb"), w.folder)
    check({k: w.run.get(k) for k in ("entity", "project", "run_group", "display_name", "sweep_id")}
          == dict(entity="nersc", project="test", run_group="op_test2", display_name="test2_0", sweep_id=None),
          f"{w.run}")
    check(abs(w.run["start"] - begun) < 3600, f"{w.run['start']}")
    check(w.config["batch_size"] == 4 and w.config["lr"] == 1e-3 and w.config["hidden"] == 4
          and w.config["log_to_wandb"] is True and w.config["train_path"] is None
          and w.config["config"] == "test2", f"{w.config}")
    check([p["_step"] for p in w.history] == [1, 2, 3, 4] and all(set(p) == THEIRS | OURS for p in w.history),
          f"{[set(p) ^ (THEIRS | OURS) for p in w.history]}")
    check(all(a["_timestamp"] <= b["_timestamp"] and a["_runtime"] <= b["_runtime"]
              for a, b in zip(w.history, w.history[1:])), "time goes on")
    check(w.all("summary") == w.history, "the summary has the newest values")
    check_beside_metrics(w, r.folder)
    check_pictures(w)
    with open(f"{w.folder}/files/wandb-summary.json") as f:
        summary = json.load(f)
    check(set(summary) == THEIRS | OURS | {"_wandb"} and summary["val_loss"] == w.history[-1]["val_loss"], f"{summary}")
    with open(f"{w.folder}/files/wandb-metadata.json") as f:
        about = json.load(f)
    check(about["program"] == DLRUN and about["args"] == command("whole", "--max_epochs=4")[1:]
          and about["host"] == w.run["host"], f"{about}")
    check("wandb sync` uploads" in r.stderr and w.folder in r.stderr.replace(r.folder, os.path.realpath(r.folder)),
          "the log says where")


def test_goes_on():
    """Stopped, killed and torn: in the end one run, each step once, with the values of one that was never
    interrupted."""
    whole = read(f"{TMP}/whole/expts/test2/0")
    r = run("parts", "--max_epochs=4", "--stop_after=6", rc=75)
    w = read(r.folder)
    if not w or not whole:
        return
    check([k for k, _ in w.records][-3:] == ["preempting", "exit", "final"] and w.exit == [75]
          and [p["_step"] for p in w.history] == [1], f"{w.records[-2:]}")
    id = w.run["run_id"]
    with open(f"{w.path}.synced", "w"):
        pass
    gate = Gate("epoch", 3)  # recorded, and not in a checkpoint: it is made and recorded again
    slow = subprocess.Popen(command("parts", "--max_epochs=40"), env={**ENV, **gate.env}, stdin=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    check(gate.wait(slow), "it ended before its third epoch was recorded")
    slow.send_signal(signal.SIGKILL)
    check(slow.wait() == -signal.SIGKILL, "killed")
    gate.close()
    check(not os.path.exists(f"{w.path}.synced"), "what was uploaded was not all")
    with open(w.path, "r+b") as f:  # and torn, as a machine that went down may leave it
        f.truncate(os.path.getsize(w.path) - 3)
    with open(w.path, "rb") as f:
        try:
            decoded(f.read())
            check(False, "not torn")
        except Damaged:
            pass
    with open(f"{r.folder}/checkpoints/last/state.json") as f:
        last = json.load(f)["epoch"]
    r = run("parts", f"--max_epochs={max(last, 3) + 1}")
    w = read(r.folder)
    if not w:
        return
    check(len(glob.glob(f"{r.folder}/wandb/offline-run-*")) == 1 and w.run["run_id"] == id and w.exit == [0],
          f"{w.exit}")
    check([p["_step"] for p in w.history] == list(range(1, max(last, 3) + 2)), f"{[p['_step'] for p in w.history]}")
    check(steady(w.history[:4]) == steady(whole.history), f"{steady(w.history[:4])} next to {steady(whole.history)}")
    check(w.config["max_epochs"] == max(last, 3) + 1 and w.run["config"]["max_epochs"] == 4, "the configuration of now")
    check_beside_metrics(w, r.folder)
    check_pictures(w)
    check(all(a["_runtime"] <= b["_runtime"] for a, b in zip(w.history, w.history[1:])), "the run's seconds go on")


def test_beginnings():
    """A run that begins anew, one that goes on from another's directory, one that is asked for it late."""
    first = read(f"{TMP}/whole/expts/test2/0")
    r = run("whole", "--max_epochs=2", "--resume=false")
    w, kept = read(r.folder), read(f"{r.folder}.1")
    if not w or not kept or not first:
        return
    check(kept.run["run_id"] == first.run["run_id"] != w.run["run_id"] and len(w.history) == 2,
          "another run; the earlier one is kept")
    r = run("copied", f"--resume={TMP}/whole/expts/test2/0.1", "--max_epochs=6")
    w = read(r.folder)
    if not w:
        return
    check(w.run["run_id"] != first.run["run_id"] and [p["_step"] for p in w.history] == [1, 2, 3, 4, 5, 6],
          f"{w.history}")
    check(all(("_timestamp" in p) == ("vis" in p) == (p["_step"] > 4) for p in w.history),
          "of copied points neither time nor pictures are known")
    check_beside_metrics(w, r.folder)
    r = run("late", "--max_epochs=2", "--log_to_wandb=false")
    check(not os.path.exists(f"{r.folder}/wandb"), "not asked for")
    r = run("late", "--max_epochs=3")
    w = read(r.folder)
    check(w and [p["_step"] for p in w.history] == [1, 2, 3], "asked for late")


def test_ends():
    """A loss that is not finite is a run that failed."""
    r = run("failed", "--max_epochs=2", "--lr=1e30", rc=7)
    w = read(r.folder)
    check(w and w.exit == [7] and w.history == [], f"{w and w.records[-1]}")
    r = run("other", "--max_epochs=1", "--log_format=iters")
    w = read(r.folder)
    check(w and [p["_step"] for p in w.history] == [0, 1] and {"Loss/train", "Loss/valid"} < set(w.history[0]),
          f"{w and w.history}")


def test_variables():
    """W&B's own variables: a key that is given beats them, a default does not; in a sweep they beat keys."""
    r = run("variables", "--max_epochs=1", "--wandb_group=g-{config}", WANDB_ENTITY="e", WANDB_RUN_GROUP="no",
            WANDB_NAME="n", WANDB_RUN_ID="my-run.1",
            WANDB_TAGS="a,b", WANDB_NOTES="s\udcffo", WANDB_JOB_TYPE="j", WANDB_MODE="online",
            WANDB_DIR=f"{TMP}/elsewhere")
    w = read(r.folder)
    if w:
        check({k: w.run.get(k)
               for k in ("entity", "project", "run_group", "display_name", "run_id", "notes", "job_type")}
              ==
              dict(entity="nersc", project="test", run_group="g-test2", display_name="n", run_id="my-run.1",
                   notes="s\ufffdo", job_type="j"), f"{w.run}")
        check(w.run["tags"] == ["a", "b"] and os.path.dirname(w.folder) == os.path.realpath(f"{TMP}/elsewhere/wandb"),
              w.folder)
    check("WANDB_MODE=online: nothing is sent" in r.stderr, f"{r.stderr[:2000]}")
    r = run("swept", "--max_epochs=1", WANDB_SWEEP_ID="s1", WANDB_ENTITY="e", WANDB_PROJECT="p", WANDB_RUN_ID="t1")
    w = read(r.folder)
    check(w and (w.run["sweep_id"], w.run["entity"], w.run["project"], w.run["run_id"]) == ("s1", "e", "p", "t1"),
          f"{w and w.run}")
    r = run("swept", "--max_epochs=2", WANDB_SWEEP_ID="s1", WANDB_RUN_ID="t2")
    w = read(r.folder)
    check(w and w.run["run_id"] == "t2" and [p["_step"] for p in w.history] == [1, 2],
          "another id is another run, with the points so far")
    r = run("off", "--max_epochs=1", WANDB_MODE="disabled")
    check(not os.path.exists(f"{r.folder}/wandb"), "disabled")
    for words, env in ((r"WANDB_MODE must be offline, disabled or online, not 'on'", dict(WANDB_MODE="on")),
                       (r"WANDB_RUN_ID can be no run's name: 'a/b'", dict(WANDB_RUN_ID="a/b"))):
        r = run("no", rc=2, **env)
        check(re.search(words, r.stderr) and not os.path.exists(r.folder), r.stderr)
    run("no", "--dry_run", "--root_dir=$DLC_NOWHERE/x")  # which writes nothing, and needs no place for it
    r = run("no", "--wandb_name={nobody}", rc=2)
    check(re.search(r"wandb_name.*\{nobody\} is none of \{expdir\}", r.stderr), r.stderr)


def test_refused():
    """What is no file of W&B's where one should be gone on with is left as it is, with what to do."""
    r = run("foreign", "--max_epochs=1")
    w = read(r.folder)
    if w:
        with open(w.path, "wb") as f:
            f.write(b"something else")
        r = run("foreign", "--max_epochs=2", rc=3)
        with open(w.path, "rb") as f:
            check("is no file of Weights & Biases: move it away" in r.stderr and f.read() == b"something else",
                  r.stderr[-500:])


test_whole()
test_goes_on()
test_beginnings()
test_ends()
test_variables()
test_refused()
finish()
