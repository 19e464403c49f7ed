"""dlrun as its users meet it: runs, stops, resumes and fails, on a model of two convolutions and crops of 16^3.

check_dlrun.py DLRUN [NAME... | long]     from the project's root; needs nothing but Python's own library
"""
import glob
import json
import math
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

from checks import ENV, TMP, Gate, check, finish, save_file

DLRUN = os.path.abspath(sys.argv[1])
MODEL = "tests/data/small.dl"
METRICS = ("again", "error 0", "error 1")  # of this model


def arguments(expdir, *more, samples=16):
    return [DLRUN, MODEL, "--data_loader_config=synthetic", "--data_size=16", "--local_batch_size=2",
            f"--Nsamples={samples}",
            "--Nsamples_val=4", "--num_epochs=2", "--start_lr=1e-3", f"--expdir={TMP}/{expdir}", *more]


def run(args, **env):
    return subprocess.run(args, capture_output=True, text=True, env={**ENV, **env}, stdin=subprocess.DEVNULL)


def small(expdir, *more, samples=16, **env):
    return run(arguments(expdir, *more, samples=samples), **env)


def folder(expdir):
    return f"{TMP}/{expdir}/small-base/1GPU/00"


def read(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def points(expdir):
    """metrics.jsonl without what a clock says."""
    lines = [json.loads(line) for line in read(f"{folder(expdir)}/metrics.jsonl").splitlines()]
    for p in lines:
        p.pop("Avg iters per sec", None), p.pop("Data wait time", None)
    return lines


def weights(expdir):
    last = f"{folder(expdir)}/checkpoints/last"
    return read(f"{last}/model.safetensors", "rb"), read(f"{last}/optimizer.safetensors", "rb")


def load_header(path):
    raw = read(path, "rb")
    return json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])


def test_run():
    """Every file of the run's directory, and the log word for word as system A's."""
    r = small("whole")
    check(r.returncode == 0 and r.stdout == "", f"a run ends with {r.returncode}: {r.stderr[-300:]}")
    log = read(f"{folder('whole')}/out.log")
    head = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - root - INFO - "
    lines = [r"rank 0, begin data loader init", r"rank 0, data loader initialized with config synthetic",
             r"Starting Training Loop\.\.\."]
    for epoch in (1, 2):
        lines += [rf"Time taken for epoch {epoch} is \d+\.\d+ sec, avg \d+\.\d+ samples/sec",
                  r"  Avg train loss=\d+\.\d{6}",
                  r"  Avg val loss=\d+\.\d{6}", r"  Avg val again=\d+\.\d{6}", r"  Avg val error 0=\d+\.\d{6}",
                  r"  Avg val error 1=\d+\.\d{6}", r"  Total validation time: \d+\.\d+ sec"]
    lines += [r"DONE ---- rank 0"]
    at = 0
    for line in lines:
        m = re.compile(rf"^{head}{line}$", re.M).search(log, at)
        check(m, f"out.log has, in this order, '{line}'")
        at = m.end() if m else at
    check("global_batch_size 2\n" in log, "the log tells the batch size that local_batch_size gave")

    p = points("whole")
    check([(x["epoch"], x["iteration"]) for x in p] == [(0, 0), (1, 8), (2, 16)],
          f"points at the start and each epoch: {p}")
    own = {f"{name}/{split}" for name in METRICS for split in ("train", "valid")}
    check(set(p[0]) == {"epoch", "iteration", "Loss/train", "Loss/valid"} | own, f"tags of the untrained point: {p[0]}")
    for x in p:
        for split in ("train", "valid"):
            check(x[f"again/{split}"] == x[f"Loss/{split}"], f"a metric is averaged as the loss is: {x}")
            check(0 < x[f"error 0/{split}"] != x[f"error 1/{split}"] > 0, f"each metric has values of its own: {x}")
    check(set(p[1]) == set(p[0]) | {"Learning Rate"}, f"tags of a point: {p[1]}")
    check(abs(p[1]["Learning Rate"] - 0.5e-3) < 1e-15 and p[2]["Learning Rate"] == 0, "half a cosine ends at zero")
    events = read(f"{folder('whole')}/logs/" + os.listdir(f"{folder('whole')}/logs")[0], "rb")
    for tag in (b"Loss/train", b"Loss/valid", b"Learning Rate", b"Avg iters per sec", b"Visualization", b"temperature",
                *(f"{name}/{split}".encode() for name in METRICS for split in ("train", "valid"))):
        check(tag in events, f"TensorBoard has {tag}")
    check(read(f"{folder('whole')}/prediction.png", "rb")[:8] == b"\x89PNG\r\n\x1a\n", "prediction.png is a PNG")
    check(re.search(r"^ +start_lr: 0\.001$", read(f"{folder('whole')}/hyperparams.yaml"), re.M),
          "hyperparams.yaml says what was used")
    model = load_header(f"{folder('whole')}/checkpoints/last/model.safetensors")
    check(model["down.weight"]["shape"] == [8, 4, 4, 4, 4] and model["up.weight"]["shape"] == [8, 5, 4, 4, 4],
          "the checkpoint has PyTorch's names and layouts")


def load_floats(path):
    """Every float32 of a file of safetensors."""
    raw, header = read(path, "rb"), load_header(path)
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    spans = [entry["data_offsets"] for name,
             entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"]
    return [v for first, last in spans for (v,) in struct.iter_unpack("<f", raw[start + first : start + last])]


def test_norms():
    """log_norms: of the gradients that are there to be saved, and of the weights behind the step, in every place;
    nowhere without it."""
    g = f"{TMP}/norms.safetensors"
    for clip in ("0", "1e-3"):
        r = small(f"norms{clip}", "--log_norms", f"--clip_grad_norm={clip}", f"--save_grads={g}", samples=2)
        first, one, two = points(f"norms{clip}")
        check(not any("norm" in tag for tag in first), f"the untrained model has no norms: {first}")
        want = math.hypot(*load_floats(g))
        check(want > 1e-3, f"they are clipped: {want}")
        check(abs(one["grad_norm"] / want - 1) < 1e-5, f"of the gradients before clipping, in float32: {one}, {want}")
        want = math.hypot(*load_floats(f"{folder(f'norms{clip}')}/checkpoints/last/model.safetensors"))
        check(abs(two["weight_norm"] / want - 1) < 1e-5, f"of the weights that the step leaves: {two}, {want}")
        log = read(f"{folder(f'norms{clip}')}/out.log")
        for p in (one, two):
            for tag in ("grad_norm", "weight_norm"):
                check(f"  Avg {tag}={p[tag]:g}\n" in log, f"the log has {tag} of {p[tag]}")
        events = read(f"{folder(f'norms{clip}')}/logs/" + os.listdir(f"{folder(f'norms{clip}')}/logs")[0], "rb")
        check(b"grad_norm" in events and b"weight_norm" in events, "TensorBoard has them")
    r = small("clipped", "--clip_grad_norm=1e-3", samples=2)
    check(r.returncode == 0 and not any("norm" in tag for p in points("clipped") for tag in p),
          "clipping alone tells no norms")


def test_same_bits():
    """The same again: other threads, other data workers, another run."""
    for name, more in (("again", []), ("one", ["--threads=1"]), ("two", ["--threads=2"]),
                       ("none", ["--num_data_workers=0"]),
                       ("three", ["--num_data_workers=3"])):
        r = small(name, *more)
        check(r.returncode == 0 and points(name) == points("whole"), f"{name} {more}: the same losses")
        check(weights(name) == weights("whole"), f"{name} {more}: the same weights and optimiser state")
    r = small("seed", "--seed=1")
    check(points("seed")[1]["Loss/train"] != points("whole")[1]["Loss/train"], "another seed, another run")


def interrupt(expdir, args, number, delay):
    """Starts a run, sends the signal once it has its first point and `delay` seconds are over, but no sooner than it
    hears what can be heard; its exit status."""
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV, text=True,
                         stdin=subprocess.DEVNULL)
    while p.poll() is None and not (os.path.exists(f"{folder(expdir)}/metrics.jsonl")
                                    and os.path.getsize(f"{folder(expdir)}/metrics.jsonl")):
        time.sleep(0.002)
    said = ""
    for line in p.stderr if number != signal.SIGKILL else ():
        said += line
        if "going on from" in line or "no checkpoint in" in line:
            break
    time.sleep(delay)
    if p.poll() is None:
        p.send_signal(number)
    _, text = p.communicate()
    return p.returncode, said + text


def test_stop_early():
    """Asked to stop while it still draws its first weights: it makes one step (more where the signal comes late), keeps
    it, and goes on from there."""
    args = [DLRUN, "models/cnn_classifier.dl", "--h4=10000", "--data_loader_config=synthetic", "--local_batch_size=2",
            "--Nsamples=400", "--Nsamples_val=2",
            "--num_epochs=1", f"--expdir={TMP}/early", "--resume"]
    check(run([*args, "--dry_run"]).returncode == 0, "compiled before")
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV, text=True,
                         stdin=subprocess.DEVNULL)
    for line in p.stderr:
        if "no checkpoint in" in line:
            p.send_signal(signal.SIGTERM)
            break
    _, text = p.communicate()
    m = re.search(r"after step (\d+) ", text)
    check(p.returncode == 75 and m, f"exit {p.returncode}: {text[-300:]}")
    r = run([*args, "--stop_after=1"])
    check(r.returncode == 75 and m and f": epoch 1, batch {m[1]} of 200" in r.stderr, f"and goes on: {r.stderr[-300:]}")


def test_asked_at_the_end():
    """A signal behind the last checkpoint, while the weights are still to be written: they are, and the run is
    whole."""
    args = [DLRUN, "models/cnn_classifier.dl", "--h4=10000", "--data_loader_config=synthetic", "--local_batch_size=2",
            "--Nsamples=2", "--Nsamples_val=2",
            "--num_epochs=1"]
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        name = f"{TMP}/end_{number.name}"
        p = subprocess.Popen([*args, f"--expdir={name}", f"--save_weights={name}.safetensors"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV,
                             text=True, stdin=subprocess.DEVNULL)
        sent = False
        for line in p.stderr:
            if " written in " in line and not sent:
                p.send_signal(number)
                sent = True
        check(p.wait() == 0 and sent and os.path.exists(f"{name}.safetensors"), f"{number.name}: exit {p.returncode}")


def stop_at(expdir, args, point, number, signal_number):
    """Stops at the gate, sends the signal there, and lets it go on; (exit status, what it printed)."""
    gate = Gate(point, number)
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**ENV, **gate.env}, text=True,
                         stdin=subprocess.DEVNULL)
    check(gate.wait(p), f"it comes to {point} {number}")
    p.send_signal(signal_number)
    gate.open()
    text = p.communicate()[1]
    gate.close()
    return p.returncode, text


# Of two epochs of 40: in the middle, one step later, killed with what was saved far before and just before, around the
# end of an epoch, and in front of the first step. The last step's is heard, too.
STOPS = [("begin", 0, signal.SIGTERM), ("step", 3, signal.SIGTERM), ("step", 4, signal.SIGINT),
         ("step", 5, signal.SIGKILL), ("step", 25, signal.SIGUSR1),
         ("step", 36, signal.SIGKILL), ("step", 39, signal.SIGHUP), ("step", 40, signal.SIGTERM),
         ("step", 41, signal.SIGINT), ("step", 60, signal.SIGKILL),
         ("begin", 0, signal.SIGKILL), ("step", 79, signal.SIGUSR2), ("step", 80, signal.SIGTERM)]


def test_stop_and_resume():
    """Stopped again and again, by asking and by killing: in the end the same bits as never stopped."""
    n = 80
    check(small("long", samples=n).returncode == 0, "the uninterrupted run")
    kept = 0  # the step of the newest checkpoint
    for point, step, number in STOPS:
        what = f"{number.name} at {point} {step}"
        rc, text = stop_at("cut", arguments("cut", "--resume", samples=n), point, step, number)
        if number == signal.SIGKILL:
            check(rc == -9, f"{what}: exit {rc}: {text[-300:]}")
            kept = max(kept, step // 40 * 40)  # each epoch leaves one
        else:
            kept = step or 1  # asked before the first, it makes one
            check(rc == 75 and "--resume" in text.splitlines()[-1], f"{what}: exit {rc}: {text[-300:]}")
        if kept:
            state = json.load(open(f"{folder('cut')}/checkpoints/last/state.json"))
            check(state["iteration"] == kept, f"{what}: a checkpoint of step {state['iteration']}, not {kept}")
    r = small("cut", "--resume", samples=n)
    check(r.returncode == 0, f"it comes to an end: {r.returncode} {r.stderr[-300:]}")
    check(points("cut") == points("long"), f"the same points: {points('cut')} and {points('long')}")
    check(weights("cut") == weights("long"), "the same weights and optimiser state to the last bit")
    old = read(f"{folder('cut')}/metrics.jsonl")
    r = small("cut", "--resume", samples=n)
    check(r.returncode == 0 and "DONE" in r.stderr and read(f"{folder('cut')}/metrics.jsonl") == old,
          "resuming what is done changes nothing")
    check("nothing is left to do: 2 epochs are over, and num_epochs is 2\n" in r.stderr,
          f"and says so: {r.stderr[-600:]}")


def test_stop_after():
    """Behind so many steps of each start of the run, in the middle of an epoch and at its end: in the end the same
    bits."""
    asked = ["--resume", "--stop_after=4"]  # 8 steps an epoch
    for i, (steps, epoch) in enumerate(((4, 1), (8, 1), (12, 2), (16, 2))):
        r = small("after", *asked)
        check(r.returncode == 75
              and f"stopped by stop_after after step {steps} (epoch {epoch})" in r.stderr.splitlines()[-1],
              f"start {i + 1}: exit {r.returncode} {r.stderr[-300:]}")
        check(json.load(open(f"{folder('after')}/checkpoints/last/state.json"))["iteration"] == steps,
              f"a checkpoint of step {steps}")
    r = small("after", *asked)
    check(
        r.returncode == 0 and
        f"going on from step 16 of {folder('after')}/checkpoints/step-00000016: epoch 2, batch 8 of 8" in r.stderr,
        f"{r.stderr[-400:]}")
    check("set otherwise" not in r.stderr, "where a run stops is no setting of its numbers")
    check(points("after") == points("whole") and weights("after") == weights("whole"),
          "the bits of the run that never stopped")
    b = f"{TMP}/after.safetensors"
    batches(b, 1)
    r = small("after", f"--replay={b}", "--stop_after=1")
    check(r.returncode == 2 and "stop_after" in r.stderr,
          f"a replay has nothing to stop with: {r.returncode} {r.stderr[-200:]}")


def test_resume_from():
    """--resume=DIR: from a run, its checkpoints or one of them, into a directory of this run's own; again, and it goes
    on with its own."""
    check(small("from", "--stop_after=11").returncode == 75, "the run to go on from")
    old = weights("from"), points("from")
    run_dir = folder("from")
    shutil.copytree(f"{run_dir}/checkpoints/step-00000011", f"{TMP}/alone/one")  # no run, no name of a checkpoint's
    for i, (named,
            history) in enumerate(((run_dir, 1), (f"{run_dir}/checkpoints", 1), (f"{run_dir}/checkpoints/last", 1),
                                   (f"{TMP}/alone/one", 0))):
        to = f"into{i}"
        r = small(to, f"--resume={named}", "--stop_after=2")
        check(r.returncode == 75 and re.search(r"going on from step 11 of \S+: epoch 2, batch 3 of 8", r.stderr),
              f"{named}: {r.returncode} {r.stderr[-300:]}")
        r = small(to, f"--resume={named}")
        check(r.returncode == 0 and f"going on from step 13 of {folder(to)}" in r.stderr,
              f"the same command goes on with what it made: {r.stderr[-300:]}")
        check(points(to)[-1] == points("whole")[-1] and weights(to) == weights("whole"),
              f"{named}: the bits of a run that never stopped")
        check(len(points(to)) == (3 if history else 1),
              f"{named}: points of the run before come along where it is known: {points(to)}")
    check((weights("from"), points("from")) == old, "what was gone on from is as it was")
    check(small("kept").returncode == 0, "a run in the way")
    r = small("kept", f"--resume={run_dir}")
    check(r.returncode == 0 and "now run 00.1 " in r.stderr and os.path.exists(f"{folder('kept')}.1/checkpoints/last"),
          f"it is kept aside: {r.stderr[-300:]}")
    check(points("kept") == points("whole"), "and the points are those of the other run, and on")
    r = small("from", f"--resume={run_dir}")
    check(r.returncode == 0 and "now run" not in r.stderr and points("from") == points("whole"),
          "the run's own directory is a plain --resume")
    for rc, pattern, named in ((4, r"cannot open .*nosuch", f"{TMP}/nosuch"), (3, r"nothing to go on from", TMP),
                               (2, r"resume must be true, false, or a path", "")):
        r = small("nowhere", f"--resume={named}")
        check(r.returncode == rc and re.search(pattern, r.stderr) and not os.path.exists(folder("nowhere")),
              f"--resume={named}: {r.returncode} {r.stderr[-300:]}")
    with open(f"{TMP}/alone/one/model.safetensors", "r+b") as f:
        f.seek(-1, 2)
        f.write(b"x")
    r = small("nowhere", f"--resume={TMP}/alone/one")
    check(r.returncode == 3 and "is damaged: its checksum" in r.stderr,
          f"a damaged one that was named: {r.returncode} {r.stderr[-300:]}")


def test_damaged():
    """The newest checkpoint damaged: the one before, and it is said; in the end the same bits."""
    check(small("damaged").returncode == 0, "a run")
    last = f"{folder('damaged')}/checkpoints/last"
    check(os.readlink(last) == "step-00000016", "two checkpoints")
    with open(f"{last}/optimizer.safetensors", "r+b") as f:
        f.seek(-9, 2)
        f.write(b"x")
    r = small("damaged", "--resume")
    check(re.search(r"WARNING.*step-00000016 passed over: .*optimizer\.safetensors is damaged", r.stderr)
          and "going on from step 8 of" in r.stderr, f"{r.stderr[-600:]}")
    check(r.returncode == 0 and points("damaged") == points("whole") and weights("damaged") == weights("whole"),
          "the same bits")


def test_links():
    """A run that died between a checkpoint and its links is gone on with, and has them again, even where nothing is
    left to do."""
    small("links")
    store = f"{folder('links')}/checkpoints"
    named = {which: os.readlink(f"{store}/{which}") for which in ("last", "best")}
    newest = named["last"]
    for which in named:
        os.unlink(f"{store}/{which}")
    r = small("links", "--resume")
    check(r.returncode == 0 and os.readlink(f"{store}/last") == newest,
          f"last names the newest again: {r.stderr[-300:]}")
    check(named["best"] != newest or os.readlink(f"{store}/best") == newest, "and best, where it is the best")


def test_beside():
    """--resume that finds nothing, where another number of ranks left a run: named, and nothing begun."""
    check(small("beside", "--stop_after=3").returncode == 75, "a run")
    two = folder("beside").replace("1GPU", "2GPU")
    os.makedirs(os.path.dirname(two))
    shutil.move(folder("beside"), two)
    r = small("beside", "--resume")
    check(r.returncode == 2 and f"--resume={two} goes on from that one" in r.stderr
          and not os.path.exists(folder("beside")), f"{r.returncode} {r.stderr[-400:]}")
    check(small("beside", "--resume", "--run_num=01").returncode == 0, "another run has none beside it")
    r = small("beside", f"--resume={two}")
    check(r.returncode == 0 and "going on from step 3 of" in r.stderr and points("beside") == points("whole"),
          f"{r.stderr[-300:]}")
    check(small("beside", "--resume").returncode == 0, "now it has its own")
    r = small("beside", "--resume=false")
    check(r.returncode == 0 and "now run 00.1 " in r.stderr, f"and begins anew: {r.stderr[-300:]}")


def test_anew():
    """The same command again is a new run; what was there is kept aside, and --resume without anything starts."""
    first = weights("whole")
    for i in (1, 2, 3):
        r = small("whole", f"--seed={i}")
        kept = f"{folder('whole')}.{i}"
        check(r.returncode == 0 and f"now run 00.{i} " in r.stderr, f"run {i} says what became of the one before")
        check(all(os.path.exists(f"{kept}/{f}")
                  for f in ("checkpoints/last", "metrics.jsonl", "logs", "hyperparams.yaml", "prediction.png")),
              "it is kept")
        check(len(points("whole")) == 3 and len(os.listdir(f"{folder('whole')}/logs")) == 1,
              "points are those of the new run alone")
    check(first ==
          tuple(read(f"{folder('whole')}.1/checkpoints/last/{f}.safetensors", "rb") for f in ("model", "optimizer")),
          "the first of all is as it was")
    check(len(read(f"{folder('whole')}/out.log").split("Starting Training Loop")) == 5, "out.log goes on")
    r = small("whole", "--resume", "--run_num=00.1", "--num_epochs=3")
    check(r.returncode == 0 and len(read(f"{folder('whole')}.1/metrics.jsonl").splitlines()) == 4,
          f"and goes on: {r.stderr[-300:]}")
    check(small("whole").returncode == 0, "a run to compare with")
    r = small("fresh", "--resume")
    check(r.returncode == 0 and "no checkpoint" in r.stderr and points("fresh") == points("whole"),
          "--resume with nothing there starts")


def test_own_models():
    """Two models with one configuration have a directory each; a run that an earlier version kept in one for all is
    told."""
    shutil.copy(MODEL, f"{TMP}/second.dl")
    second = [DLRUN, f"{TMP}/second.dl", *arguments("own")[2:], "--stop_after=3"]
    check(small("own", "--stop_after=3").returncode == 75 and run(second).returncode == 75, "runs of two models")
    check(sorted(os.listdir(f"{TMP}/own")) == ["second-base", "small-base"], f"{os.listdir(f'{TMP}/own')}")
    former = f"{TMP}/own/base"
    shutil.move(f"{TMP}/own/small-base", former)
    r = small("own", "--resume")
    said = (f"{former}/1GPU/00 has, where an earlier version kept this run: --resume={former}/1GPU/00 goes on from "
            "that one, --resume=false begins anew")
    check(r.returncode == 2 and said in r.stderr and not os.path.exists(f"{TMP}/own/small-base"),
          f"{r.returncode} {r.stderr[-500:]}")
    shutil.rmtree(f"{TMP}/own/second-base")
    r = run([*second, "--resume"])
    check(r.returncode == 75 and "no checkpoint" in r.stderr,
          f"the former directory is of another model: {r.returncode} {r.stderr[-400:]}")
    r = small("own", f"--resume={former}/1GPU/00")
    check(r.returncode == 0 and "going on from step 3 of" in r.stderr and points("own") == points("whole"),
          f"{r.stderr[-300:]}")
    r = small("own2", "--resume=false", "--stop_after=1")
    check(r.returncode == 75, "the other remedy")


def test_another_run():
    """--resume with another model, loss, size or seed: refused with every difference; with what may change: told."""
    text = read(MODEL)
    model = f"{TMP}/changed/small.dl"
    os.makedirs(os.path.dirname(model))

    def resume(*more, change=lambda t: t):
        with open(model, "w") as f:
            f.write(change(text))
        return run([DLRUN, model, *arguments("other", *more)[2:]])

    check(resume().returncode == 0, "the run to resume")
    old = weights("other"), read(f"{folder('other')}/metrics.jsonl")
    many = "".join(f"\n    h{i} = (h |> conv(width, 1) @layer{i})\n    more += mean(h{i})" for i in range(40))
    for what, patterns, args, change in (
        ("seed", [r"seed: 0 in the checkpoint, 7 now"], ["--seed=7"], lambda t: t),
        ("size", [r"data_size: 16 in the checkpoint, 8 now"], ["--data_size=8"], lambda t: t),
        ("width",
         [r"width: 8 in the checkpoint, 4 now", r"down\.weight: .*\[8,4,4,4,4\].*\[4,4,4,4,4\]",
          r"exp_avg.*up\.weight"], ["--width=4"], lambda t: t),
        ("loss",
         [r"the model, line 9: 'loss = mean\(abs\(y - t\)\)' in the checkpoint, 'loss = mean\(square\(y - t\)\)' now",
          r"graphs"],
         [], lambda t: t.replace("abs(y - t)", "square(y - t)")),
        ("slope", [r"0\.01.*in the checkpoint.*0\.02.* now"], [], lambda t: t.replace("0.01", "0.02")),
        ("name",
         [r"'.*@down .* in the checkpoint, '.*@first .* now", r"first\.bias: missing in the file",
          r"down\.bias: not in the model"],
         [], lambda t: t.replace("@down", "@first")),
        ("all",
         [r"seed: ", r"data_size: ", r"width: "] + [rf"\n.*layer{i}\.weight: missing in the file" for i in range(40)],
         ["--seed=7", "--data_size=8", "--width=4"],
         lambda t: t.replace("    output y",
                             "    more = 0" + many + "\n    output y").replace("mean(abs(y - t))",
                                                                               "mean(abs(y - t)) + more")),
    ):
        r = resume("--resume", *args, change=change)
        missing = [x for x in patterns if not re.search(x, r.stderr)]
        check(r.returncode == 3 and not missing,
              f"resume with another {what}: exit {r.returncode}, not said: {missing}: {r.stderr[-1500:]}")
        check((weights("other"), read(f"{folder('other')}/metrics.jsonl")) == old,
              f"a resume refused for its {what} leaves the run as it was")
    r = resume("--resume", "--num_epochs=3", "--start_lr=2e-3", "--local_batch_size=4", "--threads=1",
               change=lambda t: "# a remark\n" + t.replace("h = x", "hidden = x").replace("y = h", "y = hidden"))
    check(r.returncode == 0 and len(points("other")) == 4,
          f"epochs, rates and batch sizes may change, and names and remarks in the model: {r.stderr[-500:]}")
    check(re.search(r"start_lr: 0\.001 in the checkpoint, 0\.002 now", r.stderr)
          and "threads:" not in r.stderr.replace("threads: 1\n", ""), "what changed is told")


def test_other_batches():
    """Stopped in the middle of an epoch, and on with batches of another size: each sample once, but those of a batch
    that was not whole."""
    still = ["--start_lr=0", "--num_epochs=1"]  # nothing learns: means of an epoch are those of its samples
    check(small("of4", *still, "--local_batch_size=4").returncode == 0, "the unbroken run")
    want = points("of4")[-1]
    for steps, size, iterations, again in ((2, 4, 5, 0), (3, 4, 6, 2), (3, 1, 13, 0), (1, 4, 5, 2), (7, 4, 8, 2),
                                           (4, 2, 8, 0)):
        small("moved", *still, f"--stop_after={steps}")
        r = small("moved", *still, f"--local_batch_size={size}", "--resume")
        last = points("moved")[-1]
        said = re.search(rf"the epoch goes on by batches of {size} samples \(2 in the checkpoint\)" +
                         (f": {again} samples are seen twice" if again else "$"),
                         r.stderr, re.M)
        check(r.returncode == 0 and last["iteration"] == iterations and (said or size == 2),
              f"{steps} of 2, on by {size}: {last}: {r.stderr[-900:]}")
        for name in ("Loss/train", *(f"{m}/train" for m in METRICS)) if not again else ():
            check(abs(last[name] - want[name]) < 1e-6 * want[name],
                  f"{steps} of 2, on by {size}: {name} {last[name]}, not {want[name]}")
    small("moved", *still, "--stop_after=3")
    r = small("moved", *still, "--local_batch_size=4", "--resume", samples=20)
    check(r.returncode == 3
          and "8 of 2 in the checkpoint, which is from the middle of an epoch, 5 of 4 now" in r.stderr,
          f"other samples: {r.stderr[-600:]}")


def test_measure():
    r = small("bench", "--enable_benchy")
    check(r.returncode == 0 and "Avg val" not in r.stderr, "enable_benchy: no validation")
    check([x["iteration"] for x in points("bench")] == [8, 16]
          and not any(k.endswith("/valid") for k in points("bench")[0]), "and no point at step 0")


def batches(path, n, **replace):
    tensors = {}
    for i in range(n):
        tensors[f"x.{i}"] = ([2, 4, 16, 16, 16], [((k * 37 + i) % 101) / 50 - 1 for k in range(2 * 4 * 16**3)])
        tensors[f"t.{i}"] = ([2, 5, 16, 16, 16], [((k * 53 + i) % 97) / 50 - 1 for k in range(2 * 5 * 16**3)])
    tensors.update(replace)
    save_file(path, {k: v for k, v in tensors.items() if v})


def test_replay():
    b, g = f"{TMP}/b.safetensors", f"{TMP}/g.safetensors"
    batches(b, 3)
    r = small("replay", f"--replay={b}", f"--save_grads={g}", "--end_lr=1e-3",
              "--init_weights=" + folder("whole") + "/checkpoints/last/model.safetensors")
    lines = [json.loads(x) for x in r.stdout.splitlines()]
    check(r.returncode == 0 and [x["step"] for x in lines] == [1, 2, 3],
          f"a line a batch and nothing else: {r.stdout} {r.stderr[-300:]}")
    check(all(0 < x["loss"] < 2 for x in lines) and lines[2]["loss"] < lines[0]["loss"], f"it learns: {r.stdout}")
    check(all(list(x) == ["step", "loss", *METRICS] and x["again"] == x["loss"] for x in lines),
          f"and the model's metrics: {r.stdout}")
    check(set(load_header(g)) - {"__metadata__"} == {"down.weight", "down.bias", "up.weight", "up.bias"},
          "gradients by parameter name")
    r2 = small("replay2", f"--replay={b}", "--end_lr=1e-3", "--threads=1",
               "--init_weights=" + folder("whole") + "/checkpoints/last/model.safetensors")
    check(r2.stdout == r.stdout, "the same on one thread, gradients kept or not")

    batches(b, 2, **{"x.1": ([2, 4, 16, 16, 16], [float("nan")] * (2 * 4 * 16**3))})
    r = small("replay", f"--replay={b}")
    check(r.returncode == 7 and "step 2" in r.stderr and len(r.stdout.splitlines()) == 1,
          f"not a number: exit {r.returncode} {r.stderr[-200:]}")
    batches(b, 2, **{"t.1": None})
    r = small("replay", f"--replay={b}")
    check(r.returncode == 3 and "t.1" in r.stderr, f"a missing tensor: {r.returncode} {r.stderr[-200:]}")
    batches(b, 1, **{"x.0": ([1, 4, 16, 16, 16], [0.0] * (4 * 16**3))})
    r = small("replay", f"--replay={b}")
    check(r.returncode == 3 and "x.0" in r.stderr and "[1, 4, 16, 16, 16]" in r.stderr,
          f"another shape: {r.returncode} {r.stderr[-200:]}")


def test_not_finite():
    """A loss that is no number: exit 7, and the checkpoint before it is as it was."""
    check(small("nan", samples=16).returncode == 0, "a run to break")
    w = f"{TMP}/w.safetensors"
    raw = bytearray(read(f"{folder('nan')}/checkpoints/last/model.safetensors", "rb"))
    raw[-4:] = struct.pack("<f", float("nan"))
    with open(w, "wb") as f:
        f.write(raw)
    r = small("nan2", f"--init_weights={w}")
    check(r.returncode == 7 and "nan" in r.stderr.splitlines()[-1],
          f"weights with a NaN: exit {r.returncode} {r.stderr[-200:]}")
    r = small("nan3", "--start_lr=1e38", "--enable_benchy")
    check(r.returncode == 7 and re.search(r"step \d+, epoch \d+", r.stderr.splitlines()[-1]),
          f"diverged: exit {r.returncode} {r.stderr[-200:]}")
    check(not os.path.exists(f"{folder('nan3')}/checkpoints"), "nothing is saved of it")

    # the last step before a checkpoint, whose loss nobody works out any more
    once = ["--num_epochs=1", "--enable_benchy"]
    wild = ["--start_lr=1e300", "--end_lr=1e300"]
    r = small("nan4", *once, *wild, samples=2)
    last = r.stderr.splitlines()[-1]
    check(r.returncode == 7 and re.search(r"'\S+' has (nan|an infinity).*step 1, epoch 1", last),
          f"weights that are not finite: exit {r.returncode} {last}")
    check(os.listdir(f"{folder('nan4')}/checkpoints") == [], "nothing is saved of them")
    check(small("nan4", *once, "--resume", samples=2).returncode == 0, "a tamer run in the same place")
    old = weights("nan4"), os.readlink(f"{folder('nan4')}/checkpoints/last")
    r = small("nan4", "--num_epochs=2", "--enable_benchy", *wild, "--resume", samples=2)
    check(r.returncode == 7 and old == (weights("nan4"), os.readlink(f"{folder('nan4')}/checkpoints/last")),
          f"the checkpoint before stays: exit {r.returncode}")
    b, g = f"{TMP}/nan.safetensors", f"{TMP}/nan_grads.safetensors"
    batches(b, 1, **{"x.0": ([2, 4, 16, 16, 16], [float("nan")] * (2 * 4 * 16**3))})
    r = small("nan5", f"--replay={b}", f"--save_grads={g}")
    check(r.returncode == 7 and re.search(r"WARNING.*gradients.*'\S+'", r.stderr) and len(load_header(g)) == 4,
          f"gradients that are no numbers are what was asked for: {r.stderr[-400:]}")


def test_where_not_finite():
    """A loss that is no number names the step, the op and its line, by making the steps since the newest checkpoint
    again."""
    model = f"{TMP}/root.dl"
    with open(model, "w") as f:
        f.write(read(MODEL).replace("width=8)", "width=8, limit=0.5)").replace("    loss = mean(abs(y - t))\n",
                                                                               "    e = mean(abs(y - t))\n"
                                                                               "    loss = e + 0.001 * sqrt(e - "
                                                                               "limit)\n"))

    def rooted(expdir, *more, **env):
        return run([DLRUN, model, *arguments(expdir, "--enable_benchy", "--num_epochs=30", *more)[2:]], **env)

    seen = set()
    for limit in (0.796, 0.79):
        r = rooted(f"root{limit}", f"--limit={limit}")
        last = r.stderr.splitlines()[-1]
        m = re.search(r"training loss is nan at step (\d+), epoch (\d+): .*Step (\d+) made again: the first value "
                      r"that is not finite is made by '(add|sqrt)' \(\S+root\.dl:10\)", last)
        check(r.returncode == 7 and m and m[1] == m[3], f"limit {limit}: exit {r.returncode} {last}")
        back = re.search(r"going on from step (\d+) of", r.stderr)
        check(not m or (int(back[1]) if back else 0) == (int(m[2]) - 1) * 8, f"from the epoch's beginning: {back}")
        seen.add(bool(back))
        watched = rooted(f"root{limit}", f"--limit={limit}", DLR_DEBUG="nan").stderr.splitlines()[-1]
        check(m
              and re.search(rf"training of step {m[1]}, epoch {m[2]}: the first value that is not finite is made by "
                            rf"'{m[4]}' .*DLR_DEBUG=nan", watched), f"watched: {watched}")
    check(seen == {False, True}, f"before the first checkpoint and behind one: {seen}")
    r = rooted("root", "--limit=0.796", DLC_SKIP="fuse")
    check("is made by 'sqrt' (" in r.stderr, f"each op by itself: {r.stderr[-300:]}")
    r = small("wild", "--start_lr=1e38", "--enable_benchy")
    last = r.stderr.splitlines()[-1]
    check("nan at step 2" in last and re.search(r"Step 1 made again: .* is made by '\w+' \(\S+small\.dl:\d+\)", last),
          f"weights that an earlier step lost: {last}")
    r = small("tame", DLR_DEBUG="nan")
    check(r.returncode == 0 and points("tame") == points("whole"),
          f"watched, a tame run has the same bits: {r.returncode} {r.stderr[-300:]}")
    r = small("tame", "--enable_amp", "--amp_mode=fp16", "--loss_scale_init=1e30", DLR_DEBUG="nan")
    check(r.returncode == 0
          and re.search(r"training is skipped: the first value that is not finite is made by '\w+'", r.stderr),
          f"a step that the scaler skips: {r.returncode} {r.stderr[-300:]}")
    b = f"{TMP}/root.safetensors"
    batches(b, 3, **{"t.1": ([2, 5, 16, 16, 16], [0.0] * (2 * 5 * 16**3))})
    for env, wanted in (({},
                         r"loss is not finite at step 2\. Step 2 made again: the first value that is not finite is "
                         r"made by '(add|sqrt)' \(\S+root\.dl:10\)"),
                        ({"DLR_DEBUG": "nan"},
                         r"step 2: the first value that is not finite is made by '(add|sqrt)'.*DLR_DEBUG=nan")):
        r = rooted("root", f"--replay={b}", "--limit=0.3", **env)
        check(r.returncode == 7 and re.search(wanted, r.stderr) and len(r.stdout.splitlines()) == 1,
              f"a replay: {r.returncode} {r.stdout} {r.stderr[-400:]}")
    batches(b, 2, **{"x.1": ([2, 4, 16, 16, 16], [float("nan")] * (2 * 4 * 16**3))})
    r = rooted("root", f"--replay={b}", "--limit=0.3")
    check(r.returncode == 7 and "Step 2 made again: not finite is the input 'x', at [N=0" in r.stderr,
          f"an input: {r.stderr[-300:]}")


def test_faults():
    """Each: its exit status, and one line that names the cause."""
    w = f"{TMP}/odd.safetensors"
    save_file(w, {"down.weight": ([1], [0.0]), "stray": ([1], [0.0])})
    for rc, pattern, args, env in (
        (2, r"start_lr", ["--start_lr=nan"], {}),
        (2, r"start_lr", ["--start_lr=-1"], {}),
        (2, r"did you mean|num_epochs", ["--num_epoch=2"], {}),
        (2, r"Nsamples.*batch|batch.*Nsamples", ["--Nsamples=1"], {}),
        (2, r"Nsamples_val", ["--Nsamples_val=1"], {}),
        (3, r"nosuch\.safetensors|No such file", ["--init_weights=/tmp/nosuch.safetensors"], {}),
        (3, r"down\.weight: the file has F32\[1\], the model .*; up\.bias: missing .*; stray: not in the model",
         [f"--init_weights={w}"], {}),
        (5, r"(libcuda\.so\.1|no CUDA device 99).*--device=cpu", ["--device=cuda:99"], {}),
        (2, r"device must be one of cpu, cpu:NAME, cuda, cuda:N, cuda:emulated, auto", ["--device=cuda:N"], {}),
        (2, r"device must be one of cpu, cpu:NAME", ["--device=cpu:"], {}),
        (2, r"unknown target 'cpu:avx3' .*cpu:avx2, cpu:generic", ["--device=cpu:avx3"], {}),
        (2, r"WORLD_SIZE=2 in the environment, and no RANK says", [], {"WORLD_SIZE": "2"}),
        (4, r"nosuch\.h5", ["--data_loader_config=lowmem", "--train_path=/tmp/nosuch.h5"], {}),
        (4, r"small\.dl", ["--expdir=tests/data/small.dl"], {}),
        (2, r"run_num must be a folder's name", ["--run_num=../../x"], {}),
        (2, r"run_num must be a folder's name", ["--run_num=.."], {}),
        (2, r"\$\{NOPE' is no variable", ["--expdir=${NOPE"], {}),
        (2, r"NOPE is not set", ["--expdir=$NOPE/x"], {}),
        (2, r"threads must be an integer from 0 to 1024", ["--threads=5000"], {}),
        (2, r"one model at a time: 'tests/data/small\.dl' and --model=other\.dl", ["--model=other.dl"], {}),
    ):
        r = small("faults", *args, **env)
        want = (3, 4) if rc == 3 and "nosuch" in pattern else (2, 3) if rc == 2 else (rc,)
        check(r.returncode in want and re.search(pattern, r.stderr),
              f"{args} {env}: exit {r.returncode}, wanted {rc}: {r.stderr[-400:]}")
    r = small("amp", "--enable_amp")
    check(r.returncode == 0 and "Loss scale=65536, 0 steps skipped so far" in r.stderr,
          f"enable_amp scales the loss: {r.stderr[-400:]}")


def test_warnings():
    """What will hardly do what was meant is said once, whether it trains or not."""
    yaml = f"{TMP}/k.yaml"
    with open(yaml, "w") as f:
        f.write("base:\n  seed: 1\n'a/b': {}\nwrong:\n  sead: 1\n")
    more = [f"--yaml_config={yaml}", "--start_lr=1e30", "--end_lr=1e30", "--train_path_npy_data=x.npy"]
    for name, args in (("warned", ["--num_epochs=1", "--replay=" + f"{TMP}/none.safetensors"]),
                       ("warned", ["--dry_run", "--data_loader_config=dali-lowmem"])):
        r = small(name, *more, *args)
        for warning, n in (("start_lr is 1e+30", 1),
                           ("end_lr is 1e+30", 1),
                           ("of its four .npy files x.npy is not there", int("--dry_run" in args))):
            check(r.stderr.count(warning) == n, f"{args}: {n} times '{warning}': {r.stderr[-900:]}")
        r = small(name, f"--yaml_config={yaml}", "--config=wrong", *args)
        check(r.returncode == 3 and f"{yaml}:5:3: error: unknown key 'sead'; did you mean 'seed'?" in r.stderr,
              f"an unknown key: {r.stderr[-300:]}")
    r = small("wild", "--start_lr=1e300", "--end_lr=1e300", "--dry_run")
    check(r.returncode == 0 and r.stderr.count("start_lr is 1e+300") == 1,
          f"a wild rate is a warning: {r.returncode} {r.stderr}")
    r = small("quiet", "--dry_run")
    check(r.returncode == 0 and r.stderr == "", f"nothing to warn of, nothing said: {r.stderr}")
    r = small("named", f"--yaml_config={yaml}", "--config=a/b")
    check(r.returncode == 2 and "both name a folder" in r.stderr,
          f"a configuration that is no folder's name: {r.returncode} {r.stderr[-200:]}")


def test_lock():
    p = subprocess.Popen(arguments("busy", samples=4000), stderr=subprocess.PIPE, env=ENV, text=True)
    for line in p.stderr:
        if "Starting Training Loop" in line:
            break
    r = small("busy")
    p.kill()
    p.communicate()
    check(r.returncode == 2 and "another run" in r.stderr,
          f"two runs in one directory: {r.returncode} {r.stderr[-200:]}")


def test_programs_options():
    r = run([DLRUN, "--help"])
    check(r.returncode == 0 and len(r.stdout.splitlines()) > 20 and "--resume" in r.stdout
          and "DLR_CACHE_DIR" in r.stdout, "--help")
    r = run([DLRUN, "--version"])
    check(r.returncode == 0 and r.stdout.startswith("dlrun "), "--version")
    r = small("dry", "--dry_run")
    check(r.returncode == 0 and "4621" in r.stdout and "MiB" in r.stdout and not os.path.exists(f"{TMP}/dry"),
          f"--dry_run: {r.stdout} {r.stderr}")


def test_plan_cache():
    cache = os.path.join(TMP, "plans")
    cc = os.path.join(TMP, "cc")
    with open(cc, "w") as f:
        f.write('#!/bin/sh\n[ -z "$REFUSE" ] && exec gcc "$@"\nexit 1\n')
    os.chmod(cc, 0o755)
    first = small("plan1", DLR_CACHE_DIR=cache, CC=cc)
    again = small("plan2", DLR_CACHE_DIR=cache, CC=cc, REFUSE="1")
    check("; compiled in" in first.stderr and "; plan from the cache" in again.stderr,
          f"the second run finds its plan: {again.stderr[-300:]}")
    check(points("plan1") == points("plan2"), "a plan from the cache gives the same points, and runs no compiler")
    none = small("plan6", DLR_CACHE_DIR=cache, CC="", PATH="/nonexistent")
    check(none.returncode == 0 and "; plan from the cache" in none.stderr and points("plan6") == points("plan1"),
          f"without a compiler the plan that another process left is run: {none.stderr[-300:]}")
    none = small("plan7", "--local_batch_size=3", DLR_CACHE_DIR=cache, CC="", PATH="/nonexistent")
    check(none.returncode == 5 and "no C compiler found" in none.stderr, f"there is no such plan: {none.stderr[-300:]}")
    other = small("plan3", "--local_batch_size=4", DLR_CACHE_DIR=cache, CC=cc)
    check("; compiled in" in other.stderr, "another batch size is another plan")
    other = small("plan5", "--adam_beta1=0.8", DLR_CACHE_DIR=cache, CC=cc)
    check("; plan from the cache" in other.stderr and points("plan5") != points("plan1"),
          f"other constants of Adam are set in the same plan: {other.stderr[-300:]}")
    for name in os.listdir(cache):
        if name.endswith(".dlp"):
            with open(os.path.join(cache, name), "r+b") as f:
                f.seek(200)
                f.write(b"damage")
    mended = small("plan4", DLR_CACHE_DIR=cache, CC=cc)
    check("; compiled in" in mended.stderr and points("plan4") == points("plan1"), "a damaged plan is compiled anew")


def test_async():
    """Checkpoints written while training goes on: the same bits as those that are waited for, and the log says what was
    waited for."""
    r = small("behind")
    at_once = small("at_once", "--async_checkpoints=false")
    said = re.search(r"2 checkpoints written in ([\d.]+) sec; the run waited ([\d.]+) for copies in memory, ([\d.]+) "
                     r"for files", r.stderr)
    check(said and float(said[1]) > 0, f"what was waited for: {r.stderr[-300:]}")
    check(re.search(r"2 checkpoints written in [\d.]+ sec, while the run waited", at_once.stderr),
          f"{at_once.stderr[-300:]}")
    check(weights("behind") == weights("at_once") == weights("whole") and points("behind") == points("at_once"),
          "the same bits")
    dry = small("dry", "--dry_run")
    check("a checkpoint's copy of 0.1 MiB" in dry.stdout, f"--dry_run tells the copy's memory: {dry.stdout}")
    said = [json.loads(small("dry", "--dry_run", "--json", a).stdout)
            for a in ("--async_checkpoints", "--async_checkpoints=false")]
    check(said[0]["checkpoint_copy_bytes"] >= 3 * 4 * said[0]["parameters"] and said[1]["checkpoint_copy_bytes"] == 0,
          f"{said}")


def kill_often(epochs, kills, least):
    """Killed at any moment, most of them while a checkpoint is written: nothing is lost, and in the end the same
    bits."""
    epochs = f"--num_epochs={epochs}"
    check(small("unkilled", epochs).returncode == 0, "the run that is never killed")
    rng = random.Random(1)
    # seconds until a kill; fewer where the run was over before it was killed often enough
    for longest in (0.2, 0.1, 0.05):
        shutil.rmtree(folder("killed"), ignore_errors=True)
        done, began = 0, 0
        for i in range(kills):
            rc, text = interrupt("killed", arguments("killed", "--resume", epochs), signal.SIGKILL,
                                 rng.random() * longest)
            if rc != -9:
                break
            done = i + 1
            states = [json.load(open(s)) for s in glob.glob(f"{folder('killed')}/checkpoints/step-????????/state.json")]
            newest = max([s["iteration"] for s in states], default=0)
            check(newest >= began, f"kill {i + 1}: step {newest}, {began} before")
            began = newest
        if done >= least:
            break
    check(done >= least, f"killed {done} times")
    r = small("killed", "--resume", epochs)
    check(r.returncode == 0, f"it comes to its end: {r.stderr[-300:]}")
    check(points("killed") == points("unkilled"), "the same points")
    check(weights("killed") == weights("unkilled"), "the same weights and moments to the last bit")


def test_kills():
    kill_often(120, 24, 12)


if sys.argv[2:] == ["long"]:
    kill_often(1500, 500, 100)
    sys.argv.append("nothing else")
for test_name, test in [(k, v) for k, v in globals().items() if k.startswith("test_")]:
    if len(sys.argv) == 2 or test_name[5:] in ["run"] + sys.argv[2:]:  # `run` leaves what others compare with
        test()
finish()
