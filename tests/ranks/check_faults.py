#!/usr/bin/env python3
"""A rank that is killed, stopped, leaves, hangs, or calls something else: the others name it in time, and nobody is
left.

    check_faults.py BUILD openmpi|mpich [nccl|mpi]      nccl: collectives by the stand-in that DLR_NCCL names, on
    emulated devices; mpi: sums that MPI makes itself
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish  # noqa: E402

TIMEOUT = 2.0
COLLECTIVE = r"all_reduce of w at m\.dl:3"
# fault -> what each of the others says; Hydra ends all at once when one was killed or ends without MPI_Finalize
FAULTS = {
    "kill": (rf"rank 1 takes no part in .*{COLLECTIVE}.*(has ended|gone|no sign of life)", {"openmpi"}),
    "exit": (rf"rank 1 takes no part in .*{COLLECTIVE}.*(has ended|gone)", {"openmpi"}),
    "stop": (rf"rank 1 takes no part in .*{COLLECTIVE}.*no sign of life", {"openmpi", "mpich"}),
    "hang": (rf"rank 1 takes no part in .*{COLLECTIVE}.*it lives", {"openmpi", "mpich"}),
    "other": (r"rank \d and rank \d do not call the same: .*another collective at m\.dl:4", {"openmpi", "mpich"}),
    "count": (r"rank \d and rank \d do not call the same: .*another collective at m\.dl:4", {"openmpi", "mpich"}),
    "leave": (r"rank 1 has left: its disk is full", {"openmpi", "mpich"}),
    "done": (r"what was done is done", {"openmpi", "mpich"}),
    "start": (r"has waited for the others to start MPI", {"openmpi", "mpich"}),
}


def left(tag):
    """Processes that carry the tag in their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if tag in path.read_bytes().decode(errors="replace"):
                found.append(path.parent.name)
        except OSError:
            pass
    return found


def main(build, family, *over):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    program = str(pathlib.Path(build) / "tests/ranks/comm_faults")
    faults, nccl = FAULTS, over == ("nccl",)
    if over == ("mpi",):
        faults = {name: FAULTS[name] for name in ("stop", "hang", "count")}
        faults["order"] = (rf"rank \d and rank \d do not call the same: .*{COLLECTIVE}.*comm_order",
                           {"openmpi", "mpich"})
    if nccl:  # NCCL compares no calls; its own failures are told to all
        faults = {name: FAULTS[name] for name in ("kill", "stop", "hang", "leave")}
        faults["error"] = (rf"(^|rank 1 has left: |rank 1: )NCCL fails in (what follows )?{COLLECTIVE}: remote "
                           r"process exited", {"openmpi", "mpich"})

    def lose(fault):
        says, families = faults[fault]
        timeout = 2 * TIMEOUT if nccl else TIMEOUT
        # the timeout with digits of its own: 2.0 and so many thousandths less
        tag = f"{timeout}0{list(faults).index(fault)}{time.time_ns() % 100000}"
        begin = time.monotonic()
        done = subprocess.run([mpirun, "-n", "3", program, fault, "1", tag, *over], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**mpi.environment(), **({"NCCL_STANDIN_FAULT": "1:20"} if fault == "error" else {})})
        seconds = time.monotonic() - begin
        lines = [line for line in done.stdout.splitlines() if re.search(says, line)]
        speakers = {m.group(1) for line in lines if (m := re.match(r"rank (\d|\?): (?!\d+ group|its last)", line))}
        if family in families:
            check(len(lines) >= 1 and (fault in ("start", "other", "count", "order") or speakers >= {"0", "2"}),
                  f"{fault}: ranks {speakers} said so:\n{done.stdout}")
        check(done.returncode != 0, f"{fault}: exit status 0")
        if nccl and fault in ("kill", "stop", "hang") and family in families:
            check(re.search(rf"rank 0: NCCL: in {COLLECTIVE}, \d+ collectives", done.stdout),
                  f"{fault}: the flight recorder:\n{done.stdout}")
        # the timeout, MPI's start, and mpirun's patience with who ignores SIGTERM
        check(seconds < timeout + 5, f"{fault}: {seconds:.1f} s")
        for _ in range(100):
            if not left(tag):
                break
            time.sleep(0.1)
        check(not left(tag), f"{fault}: processes {left(tag)} are left")

    with concurrent.futures.ThreadPoolExecutor(4 if len(faults) == 4 else 3) as pool:  # most of the time they wait
        list(pool.map(lose, faults))
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
