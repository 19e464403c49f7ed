#!/usr/bin/env python3
"""dlc estimate-scaling: what its figures must say of each other, for networks from perfect to poor.

    check_scale.py DLC
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish, turn  # noqa: E402

MODEL = ["models/vit.dl", "--config", "base", "--img_size=[12,20]", "--n_in_channels=2", "--n_out_channels=2",
         "--embed_dim=32", "--depth=2",
         "--num_heads=4", "--patch_size=4", "--local_batch_size=1", "--threads=1"]


def near(a, b):
    return abs(a - b) <= 1e-4 * max(abs(a), abs(b), 1e-9)


def check_sums(dlc):
    """bench/scale --sums: a row for each size and number of ranks of each MPI."""
    build = pathlib.Path(dlc).resolve().parent.parent
    families = [family for family in mpi.MARKS if mpi.find(build, family)]
    done = subprocess.run([sys.executable, "bench/scale", build, "--sums", "--most=3000", "--ranks=2"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()
            if line.startswith(("| openmpi", "| mpich"))]
    check([row[:3] for row in rows] == [[family, "2", size] for family in families for size in ("1024", "3000")],
          f"bench/scale --sums: {done.returncode} {done.stdout} {done.stderr[-300:]}")
    check(all(float(cell) > 0 for row in rows for cell in row[3:] if cell != "-"), f"bench/scale --sums: {rows}")


def main(dlc):
    def run(*args, env=None, before=()):
        return subprocess.run([*before, dlc, "estimate-scaling", *MODEL, *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=env)

    def scale(*args):
        done = run("--json", *args)
        check(done.returncode == 0, f"{args}: {done.stderr[-300:]}")
        return json.loads(done.stdout)["scale"]

    for network in (["--latency=1e-6", "--bandwidth=1e9"], ["--latency=20", "--bandwidth=1"],
                    ["--latency=500", "--bandwidth=0.01"]):
        one, two, eight = scale("--ranks=2,8", *network)
        check((one["ranks"], two["ranks"], eight["ranks"]) == (1, 2, 8) and one["collectives"] == 0
              and one["efficiency"] == 1, f"{network}: one rank")
        for x in (one, two, eight):
            check(near(x["step_ms"], x["compute_ms"] + x["exposed_ms"]),
                  f"{network}: {x}: a step is kernels, and what is waited")
            check(0 <= x["exposed_ms"] <= x["network_ms"] * 1.0001, f"{network}: {x}: no more is waited than there is")
        check(two["bytes"] == eight["bytes"] > 0, f"{network}: the gradients' bytes")
        check(eight["network_ms"] > two["network_ms"] > 0, f"{network}: more ranks, more network")
    check([x["ranks"] for x in scale("--ranks=1,2,2", "--target=cuda:sm_80")] == [1, 2],
          "a number that is named twice is looked at once")
    # a sum of B bytes by n ranks: 2 (n - 1) (latency + B / n / bandwidth)
    two, = scale("--ranks=2", "--latency=1000", "--bandwidth=1e9")[1:]
    check(near(two["network_ms"], 2 * two["collectives"]), f"latency alone: {two}")
    two, = scale("--ranks=2", "--latency=1e-9", "--bandwidth=0.001")[1:]
    check(near(two["network_ms"], two["bytes"] / 1e3), f"bandwidth alone: {two}")
    # samples a second and rank: of two ranks that share each sample, half as many as of one in the same time
    one, two = scale("--ranks=2", "--tensor_parallel=2", "--target=cuda:sm_80")
    check(near(two["efficiency"], one["step_ms"] / two["step_ms"] / 2), f"tensor_parallel: {two}")
    check([x["step_ms"] for x in scale("--ranks=2", "--tensor_parallel=2", "--target=cuda:sm_80")] ==
          [one["step_ms"], two["step_ms"]], "nothing is timed")
    # measured: by real ranks of each MPI that is here, and the two numbers are those that the figures are made with
    for family in ("openmpi", "mpich"):
        mpirun = mpi.find(pathlib.Path(dlc).parent.parent, family)
        if not mpirun:
            continue
        env = {**mpi.environment(), "DLR_MPIRUN": mpirun}
        done = run("--json", "--ranks=2", "--measure=2", env=env)
        check(done.returncode == 0 and done.stdout.count("{\"latency_us\"") == 1,
              f"{family}: {done.returncode} {done.stderr[-300:]}")
        found = json.loads(done.stdout)
        points, two = found["measured"], found["scale"][1]
        check(len(points) >= 6
              and all(p["us"] > 0
                      and near(p["model_us"], 2 * found["latency_us"] + p["bytes"] / found["bandwidth_gbs"] / 1e3)
                                       for p in points), f"{family}: {found}")
        check(near(two["network_ms"],
                   two["collectives"] * 2e-3 * found["latency_us"] + two["bytes"] / found["bandwidth_gbs"] / 1e6),
              f"{family}: {found}")
        done = run("--measure=3", "--ranks=2", env=env, before=[mpirun, "-n", "2"])
        check(done.returncode != 0 and "there are 2 ranks" in done.stderr,
              f"{family}: 3 of 2: {done.returncode} {done.stderr[-300:]}")
    for bad, word in (("--ranks=2,x", "ranks"), ("--bandwidth=0", "bandwidth"), ("--latency=-1", "latency"),
                      ("--measure=1", "measure"),
                      ("--measure=2 --latency=3", "--latency")):
        done = run(*bad.split())
        check(done.returncode == 2 and word in done.stderr, f"{bad}: {done.returncode} {done.stderr[-200:]}")
    if turn(0, 4):
        check_sums(dlc)
    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
