#!/usr/bin/env python3
"""Training by several ranks with a GPU each, emulated: collectives by a stand-in for NCCL (DLR_NCCL), captured into the
step's graph.

    check_gpus.py BUILD

Bounds: sums over ranks are made in another order than one rank's, and one device's in another than the CPU's, a few
units in the last place of float32 (6e-8) a step: losses and gradients may differ by 1e-5. Products are not rounded to
TF32: an operand that differs in its last place could go to another neighbour, which is 2^-11 of it.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from check_training import BOUND, SHAPES, VIT as MODEL, read_tensors, worst_gradient, write_batches  # noqa: E402
from checks import check, drawn, finish, run_points, turn  # noqa: E402

TIMEOUT = 8  # seconds: on a busy machine a rank may wait for another's plan as long
STEPS = 6  # an emulated one takes a hundred times a CPU's
VIT = [*MODEL, "--tf32=false"]

# A driver's library as far as choosing a device asks it: two of compute capability 9.0, of 60 multiprocessors.
DRIVER = r"""
#include <string.h>
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
static int count(int *n) { *n = 2; return 0; }
static int attribute(int *v, int which, int d) { *v = which == 75 ? 9 : which == 16 ? 60 : 0; return 0; }
static int name(char *to, int size, int d) { strcpy(to, "imaginary"); return 0; }
static int get(int *d, int n) { *d = n; return 0; }
static int any(void) { return 0; }
int cuGetProcAddress_v2(const char *n, void **f, int v, unsigned long g, int *s) {
    *f = !strcmp(n, "cuDeviceGetCount") ? (void *)count : !strcmp(n, "cuDeviceGetAttribute") ? (void *)attribute :
         !strcmp(n, "cuDeviceGetName") ? (void *)name : !strcmp(n, "cuDeviceGet") ? (void *)get : (void *)any;
    return 0;
}
"""


def apart(a, b):
    return max((abs(x - y) / abs(x) for x, y in zip(a, b)), default=1) if len(a) == len(b) else 1


def children(pid):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().rsplit(")", 1)
        except OSError:
            continue
        if int(rest.split()[1]) == pid:
            found += [int(path.parent.name), *children(int(path.parent.name))]
    return found


def main(build):
    mpirun = mpi.find(build, "openmpi")
    if not mpirun:
        print("SKIP: no openmpi, or this build has no module for it")
        return 77
    env = {**mpi.environment(), "DLR_MPIRUN": mpirun}
    dlrun = str(pathlib.Path(build) / "cli/dlrun")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-gpus-"))
    write_batches(folder / "b.safetensors", SHAPES, STEPS, 5)

    def command(ranks, name, *args):
        return [dlrun, "-n", str(ranks), *VIT, f"--expdir={folder / name}", *args]

    def start(ranks, name, *args, **more):
        return subprocess.run(command(ranks, name, *args), stdin=subprocess.DEVNULL, env={**env, **more},
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def replay(ranks, name, *args, device="cuda:emulated", **more):
        done = start(ranks, name, f"--replay={folder / 'b.safetensors'}", f"--save_grads={folder / name}.g",
                     f"--device={device}", *args, **more)
        check(done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr[-400:]}")
        losses = [json.loads(line)["loss"] for line in done.stdout.splitlines() if line.startswith("{")]
        check(len(losses) == STEPS, f"{name}: {len(losses)} losses, of rank 0 alone {STEPS}")
        return losses, folder / f"{name}.g"

    cpu, one = replay(1, "cpu", device="cpu"), replay(1, "one")

    def same(many, name):
        check(apart(one[0], many[0]) <= BOUND, f"{name}: losses differ by {apart(one[0], many[0]):.1e}")
        check(apart(cpu[0], many[0]) <= BOUND, f"{name}: losses differ from the CPU's by {apart(cpu[0], many[0]):.1e}")
        for other, whose in ((one, "one device's"), (cpu, "the CPU's")):
            off = worst_gradient(read_tensors(other[1]), read_tensors(many[1])) if many[1].exists() else float("inf")
            check(off <= BOUND, f"{name}: gradients differ from {whose} by {off:.1e}")

    same(replay(2, "data"), "data")

    def launches():
        """Launch by launch, each waited for: the same bits as the graph, whose streams are in the order that its events
        allow alone; of some buckets."""
        wide = ["--embed_dim=112", "--bucket_cap_mb=1"]
        graph, slow = replay(2, "graph", *wide), replay(2, "launches", *wide, "--profile", DLR_DEBUG="launches")
        check(graph[0] == slow[0] and graph[1].read_bytes() == slow[1].read_bytes(),
              f"a graph and launches: {graph[0]} and {slow[0]}")

    layouts = (lambda: same(replay(4, "both", "--tensor_parallel=2", "--context_parallel=2"), "both"),
               lambda: same(replay(3, "ring", "--context_parallel=3", "--cp_comm_type=p2p"),
                            "keys and values round a ring"), launches)
    for layout in drawn(layouts):
        layout()

    # a run: what it asks of the driver, going on from its checkpoint, its profile
    run = ["--depth=1", "--data_loader_config=synthetic", "--limit_nsamples=16", "--limit_nsamples_val=4",
           "--device=cuda:emulated"]

    def valid(name):
        points = run_points(folder / name)
        return points[-1].get("Loss/valid") if points else None

    done = start(2, "whole", *run, "--num_iters=12", DLR_DEBUG="driver")
    check(done.returncode == 0, f"a run: {done.stderr[-400:]}")
    said = re.findall(r"driver: graph launches a step 1, synchronisations a step 0, allocations a step 0 \((\d+) "
                      r"steps in a row", done.stderr)
    check(len(said) == 2 and all(int(n) >= 4 for n in said), f"what two ranks ask of the driver: {done.stderr[-600:]}")
    check(re.search(r"held by other programs and the driver's context; this run takes .*; NCCL's buffers are more$",
                    done.stderr, re.M), f"the device's memory: {done.stderr[-600:]}")
    done = start(2, "part", *run, "--num_iters=12", "--stop_after=5")
    check(done.returncode == 75, f"stop_after: exit {done.returncode}: {done.stderr[-400:]}")
    done = start(2, "part", *run, "--num_iters=12", "--resume", "--profile", "--check_replicas=2")
    check(done.returncode == 0 and valid("whole") is not None and valid("whole") == valid("part"),
          f"gone on with: {done.returncode}, {valid('whole')} and {valid('part')}: {done.stderr[-400:]}")
    trace = json.loads(next((folder / "part").rglob("profile.json")).read_text())["traceEvents"]
    begun = [e for e in trace if e.get("cat") == "collective" and e["ph"] == "b"]
    ended = {e["id"]: e["ts"] for e in trace if e.get("cat") == "collective" and e["ph"] == "e"}
    check(begun and all(e["args"]["where"].startswith("models/vit.dl:") and ended[e["id"]] > e["ts"] for e in begun),
          f"collectives in the trace: {begun[:2]}")

    # a rank that is killed, and one that is stopped, in the middle of it
    for i, (how, says) in enumerate(((signal.SIGKILL, "it has ended"), (signal.SIGSTOP, "no sign of life"))):
        if not turn(i):
            continue
        name = f"lost{int(how)}"
        job = subprocess.Popen(command(2, name, *run, "--num_epochs=10000", f"--comm_timeout={TIMEOUT}"),
                               stdin=subprocess.DEVNULL, env=env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in job.stderr:
            if "Avg val loss" in line:
                break
        ranks = [pid for pid in children(job.pid)
                 if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"dlrun")]
        victims = [pid for pid in ranks
                   if b"OMPI_COMM_WORLD_RANK=1\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes() + b"\0"]
        check(len(victims) == 1, f"{name}: ranks {ranks}, of which {victims} are the second")
        os.kill(victims[0], how)
        began = time.monotonic()
        text = job.stderr.read()
        status, seconds = job.wait(), time.monotonic() - began
        check(status == 8, f"{name}: exit {status}")
        check(re.search(r"rank 0: dlrun: error: rank 1 takes no part in all_reduce of [\w.,() ]+ at "
                        rf"models/vit\.dl:\d+.*: {says}", text), f"{name}: {text[-600:]}")
        flight = next((folder / name).rglob("flight-0.txt")).read_text()
        check(re.search(r"^rank 0: on the device: run \d+ of 'train', or one before, \d+ of \d\d? collectives done",
                        flight, re.M), f"{name}: {flight}")
        # which is told before the step has come there
        check(how == signal.SIGKILL or "not done all_reduce of" in flight, f"{name}: {flight}")
        check(seconds < TIMEOUT + 6, f"{name}: {seconds:.1f} s")

    # without MPI, in the words of torchrun: NCCL's id over TCP
    def apart_from_mpi(name, *args, ranks=(0, 1), timeout=60):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        words = {k: v for k, v in env.items() if not k.startswith(("OMPI_", "TORCHELASTIC_"))}
        return [subprocess.Popen([dlrun, *VIT, f"--expdir={folder / name}", f"--comm_timeout={timeout}", *args],
                                 stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**words, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2",
                                      "LOCAL_WORLD_SIZE": "2",
                                      "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "DLR_DEBUG": "driver"})
                for r in ranks]

    jobs = apart_from_mpi("tcp", *run, "--num_iters=12", "--check_replicas=2")
    said = [job.communicate() for job in jobs]
    check([job.returncode for job in jobs] == [0, 0] and valid("tcp") == valid("whole"),
          f"without MPI: {[job.returncode for job in jobs]}, {valid('tcp')} and {valid('whole')}: "
          f"{[t[1][-400:] for t in said]}")
    check(all("driver: graph launches a step 1, " in t[1] for t in said), f"without MPI: {[t[1][-400:] for t in said]}")
    jobs = apart_from_mpi("tcp_lost", *run, "--num_epochs=10000", timeout=TIMEOUT)
    for line in jobs[0].stderr:
        if "Avg val loss" in line:
            break
    jobs[1].kill()
    began = time.monotonic()
    text = jobs[0].communicate()[1]
    check(jobs[0].returncode == 8
          and re.search(r"rank 0: dlrun: error: (all_reduce of .*|a barrier) has not ended for \d+ s "
                        r"\(--comm_timeout\)", text) and
          time.monotonic() - began < TIMEOUT + 6, f"a rank lost without MPI: {jobs[0].returncode} {text[-400:]}")
    jobs[1].communicate()
    for missing, says in ((1, "rank 1 has not come to MASTER_PORT"),
                          (0, "rank 1 hears nothing of rank 0 at 127.0.0.1")):
        jobs = apart_from_mpi("tcp_missing", *run, "--num_iters=2", ranks=(1 - missing,), timeout=2)
        text = jobs[0].communicate()[1]
        check(jobs[0].returncode == 8 and says in text,
              f"rank {missing} is missing: {jobs[0].returncode} {text[-400:]}")

    # which device a rank takes, and what its plan is made for
    (folder / "driver.c").write_text(DRIVER)
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler and subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"),
                                    str(folder / "driver.c")]).returncode == 0:
        for ranks, device, says in ((2, "cuda:0",
                                     "--device=cuda:0 is one device, and this machine has 2 ranks: with --device=cuda "
                                     "each takes"),
                                    (4, "cuda", "of its machine, counted from 0, where the driver finds 2 devices")):
            done = start(ranks, "which", *run[:-1], "--num_iters=2", f"--device={device}",
                         LD_LIBRARY_PATH=f"{folder}:{env.get('LD_LIBRARY_PATH', '')}")
            check(done.returncode != 0 and says in done.stderr,
                  f"{ranks} ranks on {device}: {done.returncode} {done.stderr[-500:]}")

        done = start(1, "sized", *run[:-1], "--dry_run", "--device=cuda",
                     LD_LIBRARY_PATH=f"{folder}:{env.get('LD_LIBRARY_PATH', '')}")
        check("cuda:sm_90a/60\n" in done.stdout or "NVRTC" in done.stderr,
              f"60 multiprocessors: {done.returncode} {done.stdout[-300:]} {done.stderr[-500:]}")

    done = start(2, "none", *run, "--num_iters=2", DLR_NCCL="/nonexistent")
    check(done.returncode == 5
          and "no NCCL (libnccl.so.2, 2.18 or newer) found, looked at: DLR_NCCL=/nonexistent" in done.stderr,
          f"no NCCL: {done.returncode} {done.stderr[-400:]}")
    done = start(2, "unnamed", *run, "--num_iters=2", DLR_NCCL="")
    check(done.returncode == 2 and "DLR_NCCL=BUILD/tests/ranks/libnccl_standin.so" in done.stderr,
          f"none named: {done.returncode} {done.stderr[-400:]}")
    done = start(2, "old", *run, "--num_iters=2", NCCL_STANDIN_VERSION="21405")
    check(done.returncode == 5 and "its version is 2.14.5, and 2.18 is needed" in done.stderr,
          f"an old NCCL: {done.returncode} {done.stderr[-400:]}")
    said = subprocess.run([dlrun, "--version"], stdout=subprocess.PIPE, text=True, env=env).stdout
    check(f"\nNCCL 2.28.9 ({os.environ['DLR_NCCL']})\n" in said, f"--version: {said}")
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
