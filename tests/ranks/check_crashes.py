#!/usr/bin/env python3
"""A rank of two killed in place of its k-th request on files (tests/faults/shim.c), for each k, in a run whose ranks
write checkpoints in parts: afterwards a checkpoint loads that is no older than the newest before, and the run goes on
to the bits of one that nobody has killed. So is a rank that reads them: the run is begun with a checkpoint that it goes
on from.

    check_crashes.py BUILD SHIM EVERY     every EVERY-th k, another residue for each rank; by the first MPI that is
                                          there
"""
import os
import pathlib
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
from check_phases import MODEL  # noqa: E402

RUN = ["--limit_nsamples=8", "--limit_nsamples_val=4", "--num_iters=8", "--sharded_checkpoints", "--zero=1", "--resume"]
BEFORE, LAST = 2, 8  # the step that all of them begin at, and the last: three checkpoints
# Only the one rank meets the faults.
WRAPPER = """import os, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK"))
if rank == sys.argv[1]:
    os.environ["LD_PRELOAD"] = sys.argv[2]
os.execv(sys.argv[3], sys.argv[3:])
"""


def main(build, shim, every):
    every = int(every)
    mpirun = mpi.find(build, "mpich") or mpi.find(build, "openmpi")
    if not mpirun:
        print("SKIP: no MPI, or this build has no module for it")
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-crashes-",
                                           dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    env = mpi.environment()
    dlrun = str((pathlib.Path(build) / "cli/dlrun").resolve())
    (folder / "wrapper.py").write_text(WRAPPER)

    def run(name, *args, rank="none", **more):
        done = subprocess.run([mpirun, "-n", "2", sys.executable, str(folder / "wrapper.py"), rank,
                               str(pathlib.Path(shim).resolve()), dlrun,
                               *MODEL, *RUN, f"--expdir={folder / name}", *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", env={**env, **more})
        return done.returncode, done.stdout

    def place(name):
        return folder / name / "base/2GPU/00"

    def result(name):
        points = [{k: p.get(k) for k in ("epoch", "iteration", "Loss/train", "Loss/valid", "Learning Rate")}
                  for p in run_points(place(name))]
        return points, shards.tensors(place(name) / "checkpoints/last")

    status, text = run("begun", f"--stop_after={BEFORE}")
    check(status == 75 and (place("begun") / f"checkpoints/step-{BEFORE:08}/state.json").exists(),
          f"begun: {status} {text[-400:]}")
    shutil.copytree(folder / "begun", folder / "whole", symlinks=True)
    status, text = run("whole")
    check(status == 0 and f"going on from step {BEFORE} " in text, f"the run that nobody kills: {status} {text[-400:]}")
    whole, kills, torn = result("whole"), 0, 0
    for rank in ("0", "1"):
        fault = {"FAULT_OF": "dlrun", "FAULT_KIND": "files"}
        shutil.copytree(folder / "begun", folder / "counted", symlinks=True)
        run("counted", rank=rank, FAULT_COUNT=str(folder / "count"), **fault)
        shutil.rmtree(folder / "counted")
        count = int((folder / "count").read_text())
        check(count > 100, f"rank {rank} makes {count} requests")
        for k in range(1 + 7 * int(rank) % every, count + 1, every):
            shutil.rmtree(folder / "killed", ignore_errors=True)
            shutil.copytree(folder / "begun", folder / "killed", symlinks=True)
            status, text = run("killed", rank=rank, FAULT_AT=str(k), FAULT_KILL="1", **fault)
            kills += status != 0
            torn += any((place("killed") / "checkpoints").glob("*.tmp/*"))
            status, text = run("killed")
            went_on = re.search(r"going on from step (\d+) ", text)
            # one that was put aside while its successor of the same step came into place is taken with a warning
            check(status == 0 and went_on and int(went_on.group(1)) >= BEFORE and "damaged" not in text,
                  f"rank {rank} killed at {k}: {status} {text[-600:]}")
            check(result("killed") == whole, f"rank {rank} killed at {k}: other bits than of the run that nobody kills")
            left = sorted(p.name for p in (place("killed") / "checkpoints").iterdir())
            check(not any(n.endswith((".tmp", ".old")) for n in left), f"rank {rank} killed at {k}: {left}")
    print(f"{kills} kills, {torn} of them in the middle of a checkpoint")
    check(torn > 0, "some came in the middle of a checkpoint")
    shutil.rmtree(folder)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
