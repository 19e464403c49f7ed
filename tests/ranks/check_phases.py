#!/usr/bin/env python3
"""A rank that is killed or stopped in each phase of a run, or hangs after it: it is named within the timeout and 5 s,
all ranks end, nobody is left, and what the run has kept can be gone on from.

    check_phases.py BUILD openmpi|mpich [long]      long: each phase both ways; else each once
"""
import concurrent.futures
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import Gate, check, finish, run_points  # noqa: E402
from check_faults import left  # noqa: E402

TIMEOUT = 3.0
MODEL = ["models/vit.dl", "--config", "base", "--img_size=[16,16]", "--n_in_channels=2", "--n_out_channels=2",
         "--embed_dim=32",
         "--depth=1", "--num_heads=2", "--patch_size=4", "--lr=5e-4", "--lr_schedule=none", "--global_batch_size=4",
         "--data_loader_config=synthetic", "--limit_nsamples=32", "--limit_nsamples_val=4", "--threads=1",
         "--num_iters=16"]
# phase of phases.c -> who is lost there, and the steps that the run may then go on from (0: there is no checkpoint yet)
PHASES = {"init": (1, {0}), "forward": (1, {0}), "all_reduce": (1, {0}), "checkpoint": (1, {0, 8}),
          "write": (0, {0, 8}), "shutdown": (1, {16}),
          "end": (1, {16}), "exit": (1, {16})}
KILL, STOP, HANG = int(signal.SIGKILL), int(signal.SIGSTOP), 0


def shim(build):
    return str(pathlib.Path(build) / "tests/ranks/rank_phases.so")


def named_at(lines, rank):
    """When somebody said that this rank is lost: seconds, or None."""
    return next((t
                 for t, line in lines
                 if re.search(rf"rank {rank} (takes no part in|\(process \d+\)|has not begun)", line)),
                None)


def run_timed(command, env, started=lambda p: None):
    """(exit status, [(seconds, line of what it said)]); started(process) is called while it runs."""
    begin, lines = time.monotonic(), []
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env=env,
                         errors="replace")
    reader = threading.Thread(target=lambda: lines.extend((time.monotonic() - begin, line) for line in p.stdout))
    reader.start()
    started(p)
    reader.join()
    return p.wait(), lines


def main(build, family, *long):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    folder = tempfile.mkdtemp(prefix="dlr-phases-")
    dlrun = str(pathlib.Path(build) / "cli/dlrun")
    env = {**mpi.environment(), "DLR_MPIRUN": mpirun}

    def run(name, *args, started=lambda p: None, **more):
        return run_timed([dlrun, "-n", "2", *MODEL, f"--comm_timeout={TIMEOUT}", f"--expdir={folder}/{name}", *args],
                         {**env, **more}, started)

    def losses(name):
        runs = pathlib.Path(folder, name).glob("*/2GPU/00")  # not those that were set aside: 01, ...
        return [(p.get("iteration"), p.get("Loss/train"), p.get("Loss/valid")) for run_dir in runs
                for p in run_points(run_dir)]

    status, lines = run("whole", "--comm_timeout=600")  # and the kernels are compiled
    check(status == 0 and len(losses("whole")) == 3, f"a run that loses nobody: {status} {lines[-3:]}")
    after = [("end", STOP), ("exit", HANG)]  # nobody waits for it but who has started the ranks

    def lose(phase, number):
        victim, steps = PHASES[phase]
        what, name = f"{phase}, {signal.Signals(number).name if number else 'hangs'}", f"{phase}{number}"
        gate, there, begin = Gate(phase, 0, folder), [], time.monotonic()  # nobody opens it
        how = {"PHASE_SIGNAL": str(number), "PHASE_TOLD": gate.path} if number else gate.of_rank

        def wait_until_there(p):
            if gate.wait(p):
                there.append(time.monotonic() - begin)

        status, lines = run(name, started=wait_until_there, PHASE=phase, PHASE_RANK=str(victim), LD_PRELOAD=shim(build),
                            ENABLE_PROFILING="1", **how)
        gate.close()
        check(there, f"{what}: it does not come there: {lines[-3:]}")
        there = there[0] if there else 0
        named = named_at(lines, victim)
        text = "".join(line for _, line in lines)
        check(status == 8, f"{what}: exit {status}: {text[-900:]}")
        # seconds of the run, as those of the lines: from where it is lost
        check(named is not None and named < there + TIMEOUT + 5,
              f"{what}: lost at {there:.1f} s, named at {named}: {text[-900:]}")
        check(lines[-1][0] < there + TIMEOUT + 5, f"{what}: lost at {there:.1f} s, it ends at {lines[-1][0]:.1f} s")
        if (phase, number) in after:
            check(re.search(rf"rank {victim} \(process \d+\) has not ended, \d+\.\d s after the first", text),
                  f"{what}: {text[-900:]}")
        elif number == STOP and phase != "init":  # nobody but the other ranks knows of it
            check(re.search(rf"rank {1 - victim}: dlrun: error: rank {victim} takes no part in .*which is stopped",
                            text), f"{what}: {text[-900:]}")
        for _ in range(50):
            if not left(f"{folder}/{name}"):
                break
            time.sleep(0.1)
        check(not left(f"{folder}/{name}"), f"{what}: processes {left(f'{folder}/{name}')} are left")
        status, lines = run(name, "--resume")
        text = "".join(line for _, line in lines)
        check(status == 0, f"{what}: it cannot be gone on with: {status} {text[-600:]}")
        went_on = re.search(r"going on from step (\d+)", text)
        check(int(went_on.group(1) if went_on else 0) in steps, f"{what}: it goes on from {went_on}, not {steps}")
        check(losses(name) == losses("whole"), f"{what}: other losses than of a run that lost nobody")
        shutil.rmtree(f"{folder}/{name}", ignore_errors=True)

    cases = [(p, n) for p in PHASES if p != "exit" for n in (KILL, STOP)]
    if not long:  # MPICH's are the others
        cases = [c for i, c in enumerate(cases) if (i // 2 + i + (family == "mpich")) % 2 == 0 or c in after]
    cases += after[1:]
    with concurrent.futures.ThreadPoolExecutor(5) as pool:  # most of the time they wait
        list(pool.map(lambda c: lose(*c), cases))
    shutil.rmtree(folder)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
