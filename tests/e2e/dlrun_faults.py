"""Of check_dlrun.py: replays, values that are not finite, refusals, warnings, caches and kills."""
import glob
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess

from checks import ENV, TMP, check, save_file
from dlrun_runs import (DLRUN, METRICS, MODEL, arguments, batches, folder, interrupt, load_header, points, read, run,
                        small, weights)


def test_measure():
    r = small("bench", "--enable_benchy")
    check(r.returncode == 0 and "Avg val" not in r.stderr, "enable_benchy: no validation")
    check([x["iteration"] for x in points("bench")] == [8, 16]
          and not any(k.endswith("/valid") for k in points("bench")[0]), "and no point at step 0")


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
        m = re.search(r"training loss is nan at step (\d+), epoch (\d+): .*Step (\d+) repeated: the first value "
                      r"that is not finite is made by '(add|sqrt)' \(\S+root\.dl:10\)", last)
        check(r.returncode == 7 and m and m[1] == m[3], f"limit {limit}: exit {r.returncode} {last}")
        back = re.search(r"going on from step (\d+) of", r.stderr)
        check(not m or (int(back[1]) if back else 0) == (int(m[2]) - 1) * 8, f"from the epoch's beginning: {back}")
        seen.add(bool(back))
        watched = rooted(f"root{limit}", f"--limit={limit}", DLR_DEBUG="nan").stderr.splitlines()[-1]
        check(m
              and re.search(rf"training of step {m[1]}, epoch {m[2]}: the first value that is not finite is made by "
                            rf"'{m[4]}' .*DLR_DEBUG=nan", watched), f"watched: {watched}")
    check(seen == {False, True}, f"before the first checkpoint and after one: {seen}")
    r = rooted("root", "--limit=0.796", DLC_SKIP="fuse")
    check("is made by 'sqrt' (" in r.stderr, f"each op by itself: {r.stderr[-300:]}")
    r = small("wild", "--start_lr=1e38", "--enable_benchy")
    last = r.stderr.splitlines()[-1]
    check("nan at step 2" in last and re.search(r"Step 1 repeated: .* is made by '\w+' \(\S+small\.dl:\d+\)", last),
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
                         r"loss is not finite at step 2\. Step 2 repeated: the first value that is not finite is "
                         r"made by '(add|sqrt)' \(\S+root\.dl:10\)"),
                        ({"DLR_DEBUG": "nan"},
                         r"step 2: the first value that is not finite is made by '(add|sqrt)'.*DLR_DEBUG=nan")):
        r = rooted("root", f"--replay={b}", "--limit=0.3", **env)
        check(r.returncode == 7 and re.search(wanted, r.stderr) and len(r.stdout.splitlines()) == 1,
              f"a replay: {r.returncode} {r.stdout} {r.stderr[-400:]}")
    batches(b, 2, **{"x.1": ([2, 4, 16, 16, 16], [float("nan")] * (2 * 4 * 16**3))})
    r = rooted("root", f"--replay={b}", "--limit=0.3")
    check(r.returncode == 7 and "Step 2 repeated: not finite is the input 'x', at [N=0" in r.stderr,
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
    r = run([DLRUN, "--help=all"])
    check(r.returncode == 0 and len(r.stdout.splitlines()) > 20 and "--resume" in r.stdout
          and "DLR_CACHE_DIR" in r.stdout, "--help=all")
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
    r = small("after")
    at_once = small("at_once", "--async_checkpoints=false")
    said = re.search(r"2 checkpoints written in ([\d.]+) sec; the run waited ([\d.]+) for copies in memory, ([\d.]+) "
                     r"for files", r.stderr)
    check(said and float(said[1]) > 0, f"what was waited for: {r.stderr[-300:]}")
    check(re.search(r"2 checkpoints written in [\d.]+ sec, while the run waited", at_once.stderr),
          f"{at_once.stderr[-300:]}")
    check(weights("after") == weights("at_once") == weights("whole") and points("after") == points("at_once"),
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
