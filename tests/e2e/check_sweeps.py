#!/usr/bin/env python3
"""Sweeps of hyperparameters, as users run them: two agents at once, runs that are killed and stopped in a trial and
gone on with to the bits of an unbroken one, values that cannot be trained with, what is refused before anything runs.

    check_sweeps.py DLRUN
"""
import hashlib
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

from checks import ENV, TMP, check, finish

DLRUN = sys.argv[1]
MODEL = ["models/cnn_regressor.dl", "--config=test2", "--data_size=8", "--depth=2", "--threads=1", "--Nsamples=64",
         "--Nsamples_val=32"]
GRID = """
name: my_hpo_sweep
program: dummy
method: grid
metric: {name: val_loss, goal: minimize}
parameters:
  lr:
    values: [1E-4, 1E-3]
  batch_size:
    values: [16, 32]
"""


def run(*args, **more):
    return subprocess.run([DLRUN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**ENV, **more})


def start(*args):
    return subprocess.Popen([DLRUN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=ENV)


def write(name, text):
    path = pathlib.Path(TMP, name)
    path.write_text(text)
    return str(path)


def make(root, text, *args):
    """The new sweep's directory."""
    done = run("sweep", write("sweep.yaml", text), *MODEL, f"--root_dir={TMP}/{root}", "--sweep_id=s", *args)
    check(done.returncode == 0 and f"sweep {TMP}/{root}/sweeps/s: " in done.stdout,
          f"dlrun sweep: {done.returncode} {done.stderr}")
    return f"{TMP}/{root}/sweeps/s"


def events(sweep):
    return [json.loads(line) for line in pathlib.Path(sweep, "trials.jsonl").read_text().splitlines()]


def status(sweep):
    done = run("sweep", "--status", sweep, "--json")
    check(done.returncode == 0, f"--status: {done.stderr}")
    return json.loads(done.stdout)


def points(folder):
    return [json.loads(line) for line in pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()]


def bits(folder):
    """Of weights and optimiser, and all that is recorded but seconds."""
    last = pathlib.Path(folder, "checkpoints/last")
    kept = [{k: v for k, v in p.items() if "time" not in k} for p in points(folder)]
    return [hashlib.sha256((last / f"{part}.safetensors").read_bytes()).hexdigest()
            for part in ("model", "optimizer")] + kept


def wait_for_epochs(p, folder, n):
    while p.poll() is None and not (os.path.exists(f"{folder}/metrics.jsonl")
                                    and len(pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()) >= n):
        time.sleep(0.01)


def check_two_agents():
    sweep = make("two", GRID, "--max_epochs=3")
    agents = [start("agent", sweep) for _ in range(2)]
    ends = [(p.communicate(), p.returncode) for p in agents]
    check(all(code == 0 for _, code in ends), f"agents: {[(e[1][-300:], c) for e, c in ends]}")
    seen = events(sweep)
    taken = [e for e in seen if e["event"] == "taken"]
    want = {(lr, n): f"lr{name}_batchsize{n}" for lr, name in ((1e-4, "1em4"), (1e-3, "1em3")) for n in (16, 32)}
    check({(e["values"]["lr"], e["values"]["batch_size"]): e["name"] for e in taken} == want and len(taken) == 4,
          f"trials: {taken}")
    check(sorted(e["trial"] for e in seen if e["event"] == "done") == [0, 1, 2, 3], f"ends: {seen}")
    check(all(e["run"] == f"test2_0_{e['name']}" for e in taken), "folders as system C has them")
    now = status(sweep)
    for t in now["taken"]:
        recorded = points(f"{sweep}/{t['run']}")
        losses = [p["val_loss"] for p in recorded]
        check(t["metric"] == losses[-1] and t["best"] == min(losses)
              and t["best_epoch"] == recorded[losses.index(min(losses))]["epoch"]
              and t["epochs"] == recorded[-1]["epoch"] == 3 and t["state"] == "done", f"result: {t} {losses}")
        used = pathlib.Path(sweep, t["run"], "hyperparams.yaml").read_text()
        lr, batch = (float(re.search(rf"\b{key}: ([\d.e-]+)", used).group(1))
                     for key in ("start_lr", "global_batch_size"))
        check((lr, batch) == (t["values"]["lr"], t["values"]["batch_size"]), f"hyperparams.yaml: {lr} {batch} {t}")
        check(f"HPO sweep {sweep}, trial cfg {t['run']}" in pathlib.Path(sweep, t["run"], "out.log").read_text(),
              "the log names the trial")
        board = b"".join(p.read_bytes() for p in pathlib.Path(sweep, t["run"]).rglob("*tfevents*"))
        check(board.count(b"_hparams_/session_start_info") == board.count(b"_hparams_/session_end_info") == 1
              and all(struct.pack("<d", v) in board for v in (lr, batch)), "TensorBoard's HParams have the values")
    best = min(now["taken"], key=lambda t: t["best"])
    check(now["best"] == best["trial"] and now["trials"] == 4 and now["metric"] == "val_loss", f"best: {now}")
    tables = [e[0] for e, _ in ends if "4 trials, 4 done" in e[0]]
    check(len(tables) == 1 and re.search(rf"^\* {best['trial']}  +{best['name']} ", tables[0], re.M),
          f"one table at the end: {tables}")
    again = run("agent", sweep)
    check(again.returncode == 0 and not again.stdout, f"nothing is left: {again.returncode} {again.stdout}")
    done = run(*MODEL, f"--root_dir={TMP}/two", "--max_epochs=3", "--sweep_id=s")
    check(done.returncode == 0 and "no trial is left to take" in done.stderr and len(events(sweep)) == len(seen),
          f"nothing is left: {done.stderr}")
    # A trial is the run that one would have started by hand.
    done = run(*MODEL, f"--root_dir={TMP}/hand", "--max_epochs=3", "--lr=1e-3", "--batch_size=32")
    check(done.returncode == 0 and bits(f"{TMP}/hand/expts/test2/0") == bits(f"{sweep}/test2_0_lr1em3_batchsize32"),
          "bits of a run by hand")


def check_broken():
    """One trial, unbroken; killed, and stopped, and gone on with by others."""
    text = "method: grid\nmetric: {name: val_loss}\nparameters: {lr: {values: [1E-3]}, batch_size: {value: 16}}\n"
    epochs = "--max_epochs=150"
    whole, broken = make("whole", text, epochs), make("broken", text, epochs)
    done = run("agent", whole)
    check(done.returncode == 0, f"unbroken: {done.stderr[-400:]}")
    folder = f"{broken}/test2_0_trial"

    one = start(*MODEL, epochs, f"--sweep_id={broken}")
    wait_for_epochs(one, folder, 5)
    held = status(broken)["taken"]
    check(len(held) == 1 and held[0]["state"] == "runs" and held[0]["epochs"] >= 5 and held[0]["metric"] is not None,
          f"at work: {held}")
    other = run("agent", broken)
    check(other.returncode == 0 and len(events(broken)) == 1, f"it is held: {other.returncode} {other.stderr}")
    one.send_signal(signal.SIGKILL)
    one.communicate()
    check([e["event"] for e in events(broken)] == ["taken"] and status(broken)["taken"][0]["state"] == "lost",
          "killed in the trial")
    with open(f"{broken}/trials.jsonl", "a") as f:
        f.write('{"trial": 0, "event": "do')  # and another in writing

    two = start("agent", broken)
    begun = len(points(folder))
    wait_for_epochs(two, folder, begun + 5)
    two.send_signal(signal.SIGTERM)
    err = two.communicate()[1]
    check(two.returncode == 75, f"SIGTERM to an agent: {two.returncode} {err[-400:]}")
    seen = events(broken)
    check([e["event"] for e in seen] == ["taken", "taken", "returned"] and seen[2]["status"] == 75,
          f"handed back: {seen}")
    told = f"checkpoint written: `dlrun agent {broken}`, or the same command, goes on"
    check(all(told in text and "--resume" not in text for text in (err, status(broken)["taken"][0]["message"])),
          f"how it goes on: {err[-400:]}")
    check("going on from step" in pathlib.Path(folder, "out.log").read_text(), "it went on")

    three = start("agent", broken)  # whose agent is killed: the run hears of it and hands the trial back
    begun = len(points(folder))
    wait_for_epochs(three, folder, begun + 5)
    three.send_signal(signal.SIGKILL)
    three.communicate()
    check(events(broken)[-1]["event"] == "returned" and len(events(broken)) == 5,
          f"the agent alone was killed: {events(broken)}")

    four = start("agent", broken)  # whose run is killed
    begun = len(points(folder))
    wait_for_epochs(four, folder, begun + 5)
    os.kill(events(broken)[-1]["pid"], signal.SIGKILL)
    err = four.communicate()[1]
    check(four.returncode == 8
          and "dlrun agent: error: the run of trial 0 (trial) was killed by signal 9 (Killed)" in err
          and f"what it had taken stays open, and `dlrun agent {broken}` goes on with it" in err,
          f"a run is killed: {four.returncode} {err[-400:]}")

    last = run("agent", broken)
    check(last.returncode == 0 and "1 trials, 1 done" in last.stdout,
          f"the end: {last.returncode} {last.stderr[-400:]}")
    check(bits(folder) == bits(f"{whole}/test2_0_trial"), "bits of the unbroken trial")
    a, b = (status(s)["taken"][0] for s in (broken, whole))
    check(a["taken"] == 5 and {**a, "taken": 1} == b, f"results: {a} {b}")


def check_values():
    """A value that cannot be trained with is not the end of the others; draws are the same for the same seed."""
    sweep = make("nan",
                 "method: grid\nmetric: {name: val_loss, goal: maximize}\nparameters: {lr: {values: [1E+30, 1E-3]}}\n",
                 "--max_epochs=1", "--optimizer=sgd")
    done = run("agent", sweep)
    now = status(sweep)
    check(done.returncode == 0 and [t["state"] for t in now["taken"]] == ["failed", "done"]
          and now["taken"][0]["status"] == 7
          and "not finite" in now["taken"][0]["message"] and now["best"] == 1,
          f"a loss that is not finite: {done.returncode} {now}")
    text = ("method: random\nseed: {}\n{}parameters:\n  lr: {{distribution: log_uniform_values, min: 1e-4, max: "
            "1e-2}}\n  hidden: {{values: [8, 16]}}\n")
    values = []
    for root, seed in (("r1", 3), ("r2", 3), ("r3", 4)):
        sweep = make(root, text.format(seed, "run_cap: 3\n"), "--max_epochs=1")
        check(run("agent", sweep).returncode == 0, "agent of a random sweep")
        values.append([t["values"] for t in status(sweep)["taken"]])
        check(status(sweep)["best"] is None and len({t["run"] for t in status(sweep)["taken"]}) == 3,
              "no metric is named")
    check(len(values[0]) == 3 and values[0] == values[1] != values[2], f"seeds: {values}")
    check(all(1e-4 <= v["lr"] <= 1e-2 and v["hidden"] in (8, 16) for v in values[0]), f"ranges: {values[0]}")
    sweep = make("endless", text.format(0, ""), "--max_epochs=1")
    done = run("agent", sweep)
    check(done.returncode == 2 and "has no end: say --count N, or run_cap" in done.stderr, f"no end: {done.stderr}")
    check(run("agent", sweep, "--count=2").returncode == 0 and len(status(sweep)["taken"]) == 2
          and status(sweep)["trials"] is None, "--count")


LEARN = """
method: bayes
metric: {name: val_loss}
run_cap: 14
early_terminate: {type: hyperband, min_iter: 1, eta: 2}
parameters:
  optimizer: {parameters: {lr: {distribution: log_uniform_values, min: 1.0e-5, max: 1.0e-1}}}
  hidden: {min: 4, max: 12}
"""


def ask(sweep, *args, code=0):
    done = run("sweep", *args, sweep, "--json") if len(args) == 1 else run("sweep", args[0], sweep, *args[1:], "--json")
    check(done.returncode == code, f"{args}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout) if done.stdout.strip() else done.stderr


def check_learning():
    """Method bayes with early ends: stopped trials end after a comparison and keep a checkpoint, those that go on are
    among the best at each comparison; a report draws them all."""
    sweep = make("learn", LEARN, "--max_epochs=4")
    done = run("agent", sweep)
    now = status(sweep)
    check(done.returncode == 0 and len(now["taken"]) == 14 and now["method"] == "bayes"
          and "early_terminate hyperband; 14 trials" in done.stdout,
          f"learning: {done.returncode} {done.stderr[-400:]}")
    ends = {t["state"] for t in now["taken"]}
    check(ends == {"done", "stopped"}, f"ends: {ends}")
    seen = []  # the first points of the trials before, by number
    for t in now["taken"]:
        losses = [p["val_loss"] for p in points(f"{sweep}/{t['run']}")]
        better = sum(first < losses[0] for first in seen)
        seen.append(losses[0])
        check((t["state"] == "stopped") == (len(losses) < 4), f"epochs: {t} {losses}")
        check(better < -(-len(seen) // 2) or len(losses) == 1, f"not among the best half after an epoch: {t} {seen}")
        check(os.path.exists(f"{sweep}/{t['run']}/checkpoints/last"), f"a checkpoint: {t}")
    page = f"{TMP}/sweep.html"
    done = run("report", sweep, "-o", page)
    text = pathlib.Path(page).read_text() if done.returncode == 0 else ""
    check(text.count('class="trial"') == 14 and "optimizer.lr</text>" in text and now["taken"][0]["name"] in text
          and "<h2>A training step</h2>" in text, f"report: {done.stderr}")


def check_asking():
    """Programs that train by themselves, or choose the values: --ask, --tell, --add."""
    sweep = make("asked", LEARN, "--max_epochs=1")
    one = ask(sweep, "--ask")
    check(one["trial"] == 0 and set(one["values"]) == {"optimizer.lr", "hidden"}, f"asked: {one}")
    told = run("sweep", "--tell", sweep, "--trial=0", "--metric=0.25")
    check(told.returncode == 0, told.stderr)
    two = ask(sweep, "--ask")
    check(two["trial"] == 1 and run("sweep", "--tell", sweep, "--trial=1", "--failed").returncode == 0, "failed")
    given = {"optimizer.lr": 0.003, "hidden": 5}
    three = ask(sweep, "--add", "--values=" + json.dumps(given))
    check(three["trial"] == 2 and three["values"] == given, f"added: {three}")
    states = [t["state"] for t in status(sweep)["taken"]]
    check(states == ["done", "failed", "waits"], f"states: {states}")
    check(run("agent", sweep, "--count=1").returncode == 0, "the added one is trained")
    now = status(sweep)["taken"]
    check([t["state"] for t in now] == ["done", "failed", "done"] and now[0]["best"] == 0.25
          and "hidden: 5" in pathlib.Path(sweep, now[2]["run"], "hyperparams.yaml").read_text(), f"trained: {now}")
    for args, want in ((["--tell", "--trial=0", "--metric=1"], "was not asked for, or is over"),
                       (["--tell", "--trial=9", "--metric=1"], "is unknown"),
                       (["--tell", "--trial=0"], "--tell needs --trial=N, and --metric=X or --failed"),
                       (["--tell", "--trial=0", "--metric=nan"], "--metric needs a number"),
                       (["--add"], "--add needs --values="),
                       (["--add", "--values={hidden: 5}"], "--values lacks 'optimizer.lr'"),
                       (["--add", "--values={optimizer.lr: 1, hidden: 5, x: 1}"], "--values has 'x'"),
                       (["--add", "--values={optimizer.lr: fast, hidden: 5}"], "must be a number")):
        text = ask(sweep, *args, code=2)
        check(want in text, f"{args}: {text}")


def check_refused():
    def refused(text, want, *args, code=3, model=MODEL):
        done = run("sweep", write("wrong.yaml", text), *model, f"--root_dir={TMP}/wrong", *args)
        check(done.returncode == code and want in done.stderr and not os.path.exists(f"{TMP}/wrong"),
              f"{want}: {done.returncode} {done.stderr}")
        check(len(done.stderr.splitlines()) == 1, f"one line: {done.stderr}")

    wrong = f"{TMP}/wrong.yaml"
    refused("method: grid\nparameters: {hiden: {values: [8]}}\n",
            f"{wrong}:2:14: error: no key of this configuration, nor argument of its "
            "model, is called 'hiden'; did you mean 'hidden'?")
    refused("method: grid\nparameters: {hidden: {values: [8, wide]}}\n",
            f"{wrong}:2:35: error: hidden must be an integer")
    refused("method: bayes\nparameters: {lr: {value: 1}}\n", f"{wrong}:1:1: error: bayes needs a metric")
    refused(GRID, "--lr=3: ", "--lr=3", code=2)
    refused(GRID, "--resume=true: a sweep says where its trials are kept", "--resume=true", code=2)
    refused(GRID, "unknown option '--no_such_key'", "--no_such_key=1", code=2)
    refused(GRID, "--dry_run trains none", "--dry_run", code=2)
    refused(GRID, "has no configuration 'test3'", "--config=test3", code=2)

    done = run("sweep", write("wrong.yaml", "method: grid\nmetric: {name: val_los}\nparameters: {lr: {value: 1}}\n"),
               *MODEL, f"--root_dir={TMP}/wrong")
    check(done.returncode == 3
          and re.search(r"wrong.yaml:2:16: error: runs of \S*cnn_regressor.dl record no 'val_los'; did you mean "
                        r"'val_loss'\?; "
                                             "they record train_loss, val_loss, ", done.stderr),
          f"a metric: {done.stderr}")
    for i, (key,
            args) in enumerate((("adam_eps", []), ("optimizer_rho", ["--optimizer=rmsprop"]),
                                ("local_batch_size", []))):
        values = "[1, 2]" if key == "local_batch_size" else "[0.1, 0.2]"
        # what nobody typed is no word of a user's
        make(f"settled{i}", f"method: grid\nparameters: {{{key}: {{values: {values}}}}}\n", *args)
    sweep = make("once", GRID)
    check(make("once", GRID) == sweep, "made again of the same file")
    done = run("sweep", write("sweep.yaml", GRID + "run_cap: 1\n"), *MODEL, f"--root_dir={TMP}/once", "--sweep_id=s")
    check(done.returncode == 2 and "is of another file" in done.stderr, f"another file: {done.stderr}")
    done = run("sweep", write("sweep.yaml", GRID), *MODEL, f"--root_dir={TMP}/once", "--sweep_id=s", "--max_epochs=2")
    check(done.returncode == 2 and "its runs are given something else" in done.stderr,
          f"other arguments: {done.stderr}")
    for args, want, more in ((["--sweep_id=t"], "there is no sweep in", {}),
                             (["--sweep_id=s", "--dry_run"], "--dry_run trains none", {}),
                             (["--sweep_id=s", "--batch_size=8"], "--batch_size=8: ", {}),
                             (["--sweep_id=s", "--no_such=1"], "no_such", {}),
                             (["--sweep_id=.."], "'..' is no sweep's name", {})):
        done = run(*MODEL, f"--root_dir={TMP}/once", *args, **more)
        check(done.returncode == 2 and want in done.stderr, f"{args}: {done.returncode} {done.stderr}")
    for args, want, more in (([f"{TMP}/none/x"], "there is no sweep in", {}), ([], "which sweep comes first", {}),
                             ([sweep, "--count=x"], "--count needs a whole number", {}),
                             ([sweep, "--lr=1"], "--lr=1: ", {}),
                             ([sweep], "give --sweep_id to dlrun itself", {"WORLD_SIZE": "2", "RANK": "0"})):
        done = run("agent", *args, **more)
        check(done.returncode == 2 and want in done.stderr, f"agent {args}: {done.returncode} {done.stderr}")
    first = "the sweep's file comes first"
    for args, want in (([], first), (MODEL, first), (["--status", f"{TMP}/none/x"], "there is no sweep in"),
                       ([f"{TMP}/no.yaml", *MODEL], "no.yaml")):
        done = run("sweep", *args)
        check(done.returncode in (2, 4) and want in done.stderr, f"sweep {args}: {done.returncode} {done.stderr}")
    check(not os.path.exists(f"{sweep}/trials.jsonl"), "nothing was taken")
    for command in ("sweep", "agent"):
        done = run(command, "--help")
        check(done.returncode == 0 and f"usage: dlrun {command}" in done.stdout, f"{command} --help")


check_two_agents()
check_broken()
check_values()
check_learning()
check_asking()
check_refused()
finish()
