"""Of check_dlrun.py: runs that stop, are interrupted and resumed, in place or from another run."""
import json
import os
import re
import shutil
import signal
import subprocess

from checks import ENV, TMP, check
from dlrun_runs import DLRUN, METRICS, MODEL, arguments, batches, folder, points, read, run, small, stop_at, weights


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
    """A signal after the last checkpoint, while the weights are still to be written: they are, and the run is
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
    """After so many steps of each start of the run, in the middle of an epoch and at its end: in the end the same
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


def kept_values(expdir):
    """The newest checkpoint's state.json without its files, what a clock says, and the options of this start."""
    state = json.load(open(f"{folder(expdir)}/checkpoints/last/state.json"))
    for other in ("epoch_seconds", "epoch_wait", "hyperparams"):
        del state["values"][other]
    return {key: state[key] for key in state if key not in ("files", "checksum")}


def test_state():
    """Every component of a run goes on with all its numbers: what a run keeps that was stopped within epochs, at their
    ends and while its loss scale falls is what one keeps that never stopped. The rate rises until the loss gets worse,
    so that each number is another one than at the start."""
    parts = ["--num_epochs=19", "--start_lr=6", "--warmup_steps=50", "--optimizer=sgd", "--synthetic_noise=normal",
             "--lr_schedule={name: plateau, patience: 0, cooldown: 3, factor: 0.9}", "--early_stop=50", "--log_norms",
             "--enable_amp", "--amp_mode=fp16", "--loss_scale_init=1e12", "--record=tracked"]
    for steps, name in ((6, "first"), (52, "all")):
        check(small(name, *parts, f"--stop_after={steps}").returncode == 75, f"{steps} steps at once")
    for steps in (3, 3, 34, 9, 3):
        r = small("parts", *parts, "--resume", f"--stop_after={steps}")
        check(r.returncode == 75, f"{steps} steps more: {r.stderr[-300:]}")
        if kept_values("parts")["iteration"] == 6:
            check(kept_values("parts") == kept_values("first"), f"{kept_values('parts')}, not {kept_values('first')}")
    whole = kept_values("all")
    check(kept_values("parts") == whole, f"{kept_values('parts')}, not {whole}")
    check(points("parts") == points("all"), f"the same points: {points('parts')} and {points('all')}")
    values = whole["values"]
    check(values["best_epoch"] > 0 and values["early_stop"][1] > 0 and values["plateau"][4] > 0
          and 0 not in values["metric_last"], f"no number is the first one: {values}")


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
    check(small("near", "--stop_after=3").returncode == 75, "a run")
    two = folder("near").replace("1GPU", "2GPU")
    os.makedirs(os.path.dirname(two))
    shutil.move(folder("near"), two)
    r = small("near", "--resume")
    check(r.returncode == 2 and f"--resume={two} goes on from that one" in r.stderr
          and not os.path.exists(folder("near")), f"{r.returncode} {r.stderr[-400:]}")
    check(small("near", "--resume", "--run_num=01").returncode == 0, "another run has none next to it")
    r = small("near", f"--resume={two}")
    check(r.returncode == 0 and "going on from step 3 of" in r.stderr and points("near") == points("whole"),
          f"{r.stderr[-300:]}")
    check(small("near", "--resume").returncode == 0, "now it has its own")
    r = small("near", "--resume=false")
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
