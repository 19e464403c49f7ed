#!/usr/bin/env python3
"""A trial of a sweep on several ranks: all with the same values, started by dlrun -n, by an agent and by mpirun;
stopped by a signal and gone on with.

    check_sweeps.py BUILD openmpi|mpich
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish  # noqa: E402

MODEL = ["models/cnn_regressor.dl", "--config=test2", "--data_size=8", "--depth=2", "--threads=1", "--Nsamples=64",
         "--Nsamples_val=32"]
FILE = ("method: grid\nmetric: {name: val_loss}\nparameters: {lr: {values: [1E-4, 1E-3, 2E-3]}, batch_size: {value: "
        "16}}\n")


def main(build, family):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    dlrun = str(pathlib.Path(build) / "cli/dlrun")
    env = {**mpi.environment(), "DLR_MPIRUN": mpirun}
    folder = tempfile.mkdtemp(prefix="dlr-sweep-")
    pathlib.Path(folder, "s.yaml").write_text(FILE)

    def run(*args):
        return subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=env)

    def make(root, *args):
        done = run(dlrun, "sweep", f"{folder}/s.yaml", "-n", "2", *MODEL, f"--root_dir={folder}/{root}", "--sweep_id=s",
                   *args)
        check(done.returncode == 0 and "dlrun -n 2 models/" in done.stdout,
              f"dlrun sweep: {done.returncode} {done.stderr[-600:]}")
        return f"{folder}/{root}/sweeps/s"

    def events(sweep):
        return [json.loads(line) for line in pathlib.Path(sweep, "trials.jsonl").read_text().splitlines()]

    sweep = make("three", "--max_epochs=2", "--log_all_ranks")
    done = [run(dlrun, "-n", "2", *MODEL, "--max_epochs=2", "--log_all_ranks", f"--root_dir={folder}/three",
                "--sweep_id=s"),
            run(mpirun, "-n", "2", dlrun, *MODEL, "--max_epochs=2", "--log_all_ranks", f"--root_dir={folder}/three",
                "--sweep_id=s"),
            run(dlrun, "agent", sweep)]
    taken = [e for e in events(sweep) if e["event"] == "taken"]
    check([d.returncode for d in done] == [0, 0, 0] and [e["trial"] for e in taken] == [0, 1, 2],
          f"ways: {[d.stderr[-600:] for d in done]} {taken}")
    for d, e in zip(done, taken):
        said = d.stdout + d.stderr
        check(re.search(r"rank 1: ", said), f"two ranks: {said[-600:]}")
        used = pathlib.Path(sweep, e["run"], "hyperparams.yaml").read_text()
        check(float(re.search(r"start_lr: ([\d.e-]+)", used).group(1)) == e["values"]["lr"], f"values: {used}")
    check("3 trials, 3 done" in done[2].stdout, f"the table: {done[2].stdout}")
    # Ranks whose values differed would part, which check_replicas would see.
    whole = run(dlrun, "-n", "2", *MODEL, "--max_epochs=2", f"--root_dir={folder}/hand", "--lr=1E-3", "--batch_size=16",
                "--check_replicas=1")
    check(whole.returncode == 0, f"by hand: {whole.stderr[-600:]}")
    weights = [pathlib.Path(d, "checkpoints/last/model.safetensors").read_bytes()
               for d in (f"{folder}/hand/expts/test2/0", f"{sweep}/{taken[1]['run']}")]
    check(weights[0] == weights[1], "bits of a run by hand")
    left = run(mpirun, "-n", "2", dlrun, *MODEL, f"--root_dir={folder}/three", "--sweep_id=s")
    check(left.returncode == 0 and "no trial is left to take" in left.stderr + left.stdout,
          f"none is left: {left.returncode} {left.stderr[-600:]}")
    wrong = run(dlrun, "-n", "2", *MODEL, f"--root_dir={folder}/three", "--sweep_id=none")
    check(wrong.returncode == 2 and "there is no sweep in" in wrong.stderr,
          f"no such sweep: {wrong.returncode} {wrong.stderr[-600:]}")

    # Slurm's signal before the time limit, to the job; then an agent goes on.
    sweep = make("stopped", "--max_epochs=100", "--check_replicas=1")
    p = subprocess.Popen([dlrun, "-n", "2", *MODEL, "--max_epochs=100", "--check_replicas=1", f"--sweep_id={sweep}"],
                         stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    metrics = f"{sweep}/test2_0_lr1em4/metrics.jsonl"
    while p.poll() is None and not (os.path.exists(metrics)
                                    and len(pathlib.Path(metrics).read_text().splitlines()) > 4):
        time.sleep(0.02)
    p.send_signal(signal.SIGUSR1)
    err = p.communicate()[1]
    check(p.returncode == 75 and events(sweep)[-1]["event"] == "returned",
          f"SIGUSR1: {p.returncode} {err[-600:]} {events(sweep)}")
    done = run(dlrun, "agent", sweep, "--count=1")
    check(done.returncode == 0 and [e["event"] for e in events(sweep)] == ["taken", "returned", "taken", "done"],
          f"gone on with: {events(sweep)} {done.stderr[-600:]}")
    points = [json.loads(line) for line in pathlib.Path(metrics).read_text().splitlines()]
    check([p["epoch"] for p in points] == list(range(1, 101)), "every epoch once")
    shutil.rmtree(folder)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
