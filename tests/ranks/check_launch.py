#!/usr/bin/env python3
"""dlrun -n: ranks start, agree on signals, end with the status that one of them had, and nobody is left.

    check_launch.py BUILD openmpi|mpich
"""
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import Gate, check, finish  # noqa: E402
from check_faults import left  # noqa: E402
from check_phases import shim  # noqa: E402

MODEL = ["models/vit.dl", "--config", "base", "--img_size=[16,16]", "--n_in_channels=2", "--n_out_channels=2",
         "--embed_dim=32",
         "--depth=1", "--num_heads=2", "--patch_size=4", "--lr=5e-4", "--lr_schedule=none", "--global_batch_size=4",
         "--data_loader_config=synthetic", "--limit_nsamples=64", "--limit_nsamples_val=8", "--threads=1"]


def main(build, family):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    dlrun = str(pathlib.Path(build) / "cli/dlrun")
    env = mpi.environment()
    env["DLR_MPIRUN"] = mpirun
    folder = tempfile.mkdtemp(prefix="dlr-launch-")

    def run(*args, **more):
        return subprocess.run([dlrun, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True,
                              env={**env, **more})

    def start(name):
        """A run whose ranks both wait after their 12th step, at the gate."""
        gate = Gate("step", 12, folder)
        p = subprocess.Popen([dlrun, "-n", "2", *MODEL, "--num_iters=1000000", f"--expdir={folder}/{name}"],
                             stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**env, **gate.env})
        check(gate.wait(p) and gate.wait(p), f"{name}: both ranks come to step 12")
        return p, gate

    def ranks(name):
        """pid of each rank."""
        found = {}
        for pid in left(f"{folder}/{name}"):
            try:
                text = pathlib.Path("/proc", pid, "environ").read_bytes().decode(errors="replace")
                if pathlib.Path("/proc", pid, "comm").read_text().strip() != "dlrun":
                    continue
            except OSError:
                continue
            if m := re.search(r"\0(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)\0", "\0" + text):
                found[int(m.group(1))] = int(pid)
        return found

    done = run("-n", "2", *MODEL, "--num_iters=8", f"--expdir={folder}/whole")
    check(done.returncode == 0 and "DONE" in done.stderr, f"a run on 2 ranks: {done.returncode} {done.stderr[-600:]}")
    check(len(re.findall(r"DONE", done.stderr)) == 1, "more than rank 0 wrote to the log")
    done = run("-n", "2", *MODEL, "--global_batch_size=5", f"--expdir={folder}/odd")
    check(done.returncode == 2
          and "5 samples cannot be shared by 2 ranks: a multiple of 2 can, or give local_batch_size" in done.stderr,
          f"a batch that is no multiple: {done.returncode} {done.stderr[-600:]}")
    done = run("-n", "2", *MODEL, "--num_iters=8", f"--expdir={folder}/all", "--log_all_ranks")
    # mpirun forwards so many bytes at a time: a line of rank 0, which writes most, may be cut by one of another
    check(all(re.search(rf"rank 1: [-\d]+ [:,\d]+ - root - INFO - {line}$", done.stderr, re.M)
              for line in ("DONE ---- rank 1", "rank 1, begin data loader init")),
          f"--log_all_ranks: {done.stderr[-600:]}")
    done = run("-n", "2", *MODEL, "--num_iters=8", f"--expdir={folder}/e", "--log_all_ranks", "--log_format=history")
    check(all(re.search(rf"rank {r}: [-\d]+ [:,\d]+ INFO Initialized rank {r} out of 2$", done.stderr, re.M)
              for r in (0, 1)),
          f"system E's line of each rank: {done.stderr[-900:]}")

    for args, status, says in [(["-n", "0"], 2, "-n needs a whole number from 1 to 4096"),
                               (["-n", "2", *MODEL, "--no_such_key=1"], 2, "no_such_key"),
                               (["-n", "2", "models/none.dl"], None, "none.dl")]:
        done = run(*args)
        check(done.returncode == (status or done.returncode) and 1 < done.returncode < 70 and says in done.stderr,
              f"{args[:3]}: {done.returncode} {done.stderr[-400:]}")
    for named, why in [("/nonexistent/mpirun", "does not start"), ("/bin/echo", "neither Open MPI's nor MPICH's")]:
        done = run("-n", "2", *MODEL, DLR_MPIRUN=named)
        check(done.returncode == 5 and f"DLR_MPIRUN={named} in the environment" in done.stderr and why in done.stderr,
              f"another mpirun is taken for {named}: {done.returncode} {done.stderr[-400:]}")
    done = run(*MODEL, f"--expdir={folder}/w", WORLD_SIZE="4", RANK="0")
    check(done.returncode == 2 and "WORLD_SIZE=4" in done.stderr,
          f"WORLD_SIZE alone: {done.returncode} {done.stderr[-400:]}")
    done = subprocess.run([mpirun, "-n", "2", dlrun, *MODEL, f"--expdir={folder}/w"], stdin=subprocess.DEVNULL,
                          text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**env, "WORLD_SIZE": "4"})
    check(done.returncode != 0 and re.search(r"WORLD_SIZE=4, but \w+_SIZE=2", done.stdout),
          f"a mismatch: {done.stdout[-600:]}")
    done = run("-n", "2", *MODEL, WORLD_SIZE="4", RANK="0")
    check(done.returncode == 2 and "-n 2" in done.stderr, f"-n within a world: {done.returncode} {done.stderr[-400:]}")

    for number, to_rank in [(signal.SIGTERM, None), (signal.SIGINT, None), (signal.SIGUSR1, 1)]:
        name = f"signal{int(number)}"
        p, gate = start(name)
        os.kill(ranks(name)[to_rank] if to_rank is not None else p.pid, number)
        gate.open(), gate.open()
        err = p.communicate()[1]
        gate.close()
        check(p.returncode == 75, f"{number.name} to {to_rank}: {p.returncode} {err[-800:]}")
        check(not left(f"{folder}/{name}"), f"{number.name}: processes are left")

    # Who starts the ranks is killed: they keep what they have and end; the file of their statuses goes with the next
    # start.
    own = pathlib.Path(folder, "tmp")
    own.mkdir()
    env["TMPDIR"] = str(own)
    p, gate = start("orphans")
    check(len(list(own.glob(".dlc-*"))) == 1, f"a file of statuses: {sorted(f.name for f in own.iterdir())}")
    alive = [os.pidfd_open(int(pid)) for pid in ranks("orphans").values()]
    p.kill()
    gate.open(), gate.open()
    p.communicate()  # whoever has its standard error is gone
    check(len(alive) == 2, f"{len(alive)} ranks")
    for fd in alive:
        check(select.select([fd], [], [], 60)[0], "a rank outlives who has started it")
        os.close(fd)
    gate.close()
    done = run("-n", "2", *MODEL, "--num_iters=8", f"--expdir={folder}/next")
    check(done.returncode == 0 and not list(own.glob(".dlc-*")),
          f"what was left: {sorted(f.name for f in own.iterdir())} {done.stderr[-400:]}")
    del env["TMPDIR"]

    # In the middle of a step's messages: what the others wait for there is an all_reduce.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        name, gate = f"lost{int(number)}", Gate("all_reduce", 0, folder)
        p = subprocess.Popen([dlrun, "-n", "2", *MODEL, "--num_iters=1000000", f"--expdir={folder}/{name}",
                              "--comm_timeout=3"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**env, "PHASE": "all_reduce", "PHASE_RANK": "1", "LD_PRELOAD": shim(build),
                                  "ENABLE_PROFILING": "1",
                                  "PHASE_SIGNAL": str(int(number)), "PHASE_TOLD": gate.path})
        check(gate.wait(p), f"{number.name}: rank 1 comes there")
        begin = time.monotonic()
        err = p.communicate()[1]
        check(p.returncode == 8, f"{number.name}: {p.returncode} {err[-800:]}")
        if number == signal.SIGSTOP or family == "openmpi":  # Hydra kills the others before they can speak
            check(re.search(r"rank 1 takes no part in .*all_reduce", err), f"{number.name}: {err[-800:]}")
        check(time.monotonic() - begin < 3 + 5, f"{number.name}: {time.monotonic() - begin:.1f} s")
        check(not left(f"{folder}/{name}"), f"{number.name}: processes are left")
        gate.close()
    subprocess.run(["rm", "-rf", folder])
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
