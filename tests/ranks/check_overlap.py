#!/usr/bin/env python3
"""How much of what two ranks exchange in a step arithmetic hides: the program waits for less than a quarter of
the time in which sums are under way.

    check_overlap.py BUILD openmpi|mpich

A share of one run, as its profile shows it; of a machine with two free cores, whose exchange is copies between them.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish  # noqa: E402

QUARTER = 0.25


def main(build, family):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-overlap-"))
    done = subprocess.run([str(pathlib.Path(build) / "cli/dlrun"), "-n", "2", "models/unet.dl", "--config", "tiny",
                           "--data_loader_config=synthetic",
                           "--global_batch_size=2", "--Nsamples=12", "--Nsamples_val=2", "--num_epochs=1",
                           "--threads=1", "--profile", f"--expdir={folder}"],
                          stdin=subprocess.DEVNULL, env={**mpi.environment(), "DLR_MPIRUN": mpirun},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 0, f"two ranks: exit {done.returncode}: {done.stderr[-300:]}")
    table = next(folder.rglob("profile.txt")).read_text()
    line = re.search(r"^collectives: .*under way for ([\d.]+) ms, of which the program waited ([\d.]+)", table, re.M)
    check(line, "the table's line")
    if line:
        under_way, waited = float(line[1]), float(line[2])
        print(f"{family}: under way for {under_way} ms a step, waited for {waited} ms")
        check(0 < under_way and waited < QUARTER * under_way, f"waited for {waited} of {under_way} ms")
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
