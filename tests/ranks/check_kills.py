#!/usr/bin/env python3
"""A rank of two killed at random instants of a run that does little but write checkpoints, again and again: each time
the newest checkpoint loads and the run goes on from it, and in the end losses, weights and moments have the bits of a
run that nobody has killed.

    check_kills.py BUILD openmpi|mpich KILLS [sharded]      sharded: each rank writes its part of the checkpoints
"""
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
import shards  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish, run_points  # noqa: E402
from check_phases import MODEL, shim  # noqa: E402

EPOCHS, STEPS = 60, 2  # a checkpoint after every second step
WINDOW = 0.5           # seconds after a rank's first message: from MPI's start to about as many checkpoints as fit
# Of two seconds that a kill takes under Open MPI these are one and a half: its mpirun gives who is left a second
# between SIGTERM and SIGKILL (here nobody is left, as on a node that is lost; under MPICH the others end by
# themselves), and looks for fabrics at each start.
QUICK = {"OMPI_MCA_odls_base_sigkill_timeout": "0", "OMPI_MCA_pml": "ob1"}


def main(build, family, kills, *sharded):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-kills-"))
    env = {**mpi.environment(), **QUICK, "DLR_MPIRUN": mpirun}
    draw = random.Random(family)

    def run(name, *args, **more):
        done = subprocess.run([str(pathlib.Path(build) / "cli/dlrun"), "-n", "2", *MODEL,
                               f"--limit_nsamples={4 * STEPS}",
                               f"--num_iters={EPOCHS * STEPS}", f"--expdir={folder / name}",
                               *(["--sharded_checkpoints", "--zero=1"] if sharded else []), *args],
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env={**env, **more})
        return done.returncode, done.stdout

    def place(name):
        return folder / name / "base/2GPU/00"

    def newest(name):
        """Step of the checkpoint that `last` names; without it, of the newest; 0: none."""
        last = place(name) / "checkpoints/last"
        if last.is_symlink():
            return int(os.readlink(last).split("-")[1])
        return max((int(p.name.split("-")[1]) for p in place(name).glob("checkpoints/step-????????")), default=0)

    def result(name):
        points = [{k: p.get(k) for k in ("epoch", "iteration", "Loss/train", "Loss/valid", "Learning Rate")}
                  for p in run_points(place(name))]
        return points, shards.tensors(place(name) / "checkpoints/last")

    status, text = run("whole")
    check(status == 0 and newest("whole") == EPOCHS * STEPS, f"the run that nobody kills: {status} {text[-400:]}")
    whole, done, within, runs = result("whole"), 0, set(), 0
    while done < int(kills) and runs < 3 * int(kills) + 9:
        runs += 1
        before = newest("killed")
        status, text = run("killed", "--resume", PHASE_RANK=str(draw.randrange(2)),
                           PHASE_KILL_MS=str(1e3 * draw.random() * WINDOW),
                           LD_PRELOAD=shim(build))
        went_on = re.search(r"going on from step (\d+)", text)
        check(status in (0, 8), f"kill {done + 1}: exit {status}: {text[-600:]}")
        # a rank that is killed before the run is opened leaves no such line
        check(not went_on or int(went_on.group(1)) == before,
              f"kill {done + 1}: went on from {went_on}, and {before} was the newest")
        check(newest("killed") >= before and "damaged" not in text, f"kill {done + 1}: {text[-600:]}")
        done += status == 8
        if status == 8:
            within.add(newest("killed"))
        if status == 0:  # it got to its end: once more from the beginning
            check(result("killed") == whole, f"after {done} kills: the bits of a run that nobody kills")
            shutil.rmtree(folder / "killed")
    check(done == int(kills), f"killed {done} times in {runs} runs")
    check(len(within) > min(int(kills), EPOCHS) // 3, f"killed after the checkpoints of steps {sorted(within)} alone")
    status, text = run("killed", "--resume")
    check(status == 0 and result("killed") == whole, f"the bits of a run that nobody kills: {status} {text[-400:]}")
    shutil.rmtree(folder)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
