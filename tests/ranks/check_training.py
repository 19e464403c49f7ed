#!/usr/bin/env python3
"""Training by several ranks of an MPI: what one rank makes of the same samples, to float32's rounding; the same twice,
to the bit; going on in another world.

    check_training.py BUILD openmpi|mpich

The batches are noise of a generator that is written down here, so that no package is needed. Bounds: sums over ranks
are made in another order than one rank's, which costs a few units in the last place of float32 (6e-8) a step: losses
and gradients may differ by 1e-5.
"""
import json
import math
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from checks import check, finish, run_points, save_file, takes, turn  # noqa: E402

VIT = ["models/vit.dl", "--config", "base", "--img_size=[12,20]", "--n_in_channels=2", "--n_out_channels=2",
       "--embed_dim=32", "--depth=2",
       "--num_heads=4", "--patch_size=4", "--lr=1e-3", "--lr_schedule=none", "--global_batch_size=4", "--threads=1"]
SHAPES = {"x": [4, 2, 12, 20], "t": [4, 2, 12, 20]}
STEPS, BOUND = 10, 1e-5


def write_batches(path, shapes, steps, seed):
    draw = random.Random(seed)
    save_file(path,
              {f"{name}.{step}": (shape, [draw.gauss(0, 1) for _ in range(math.prod(shape))]) for step in range(steps)
                     for name, shape in shapes.items()})


def read_tensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    found = {}
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            found[name] = t["shape"], struct.unpack(f"<{(end - begin) // 4}f", raw[8 + size + begin:8 + size + end])
    return found


def norm(values):
    return sum(v * v for v in values) ** 0.5


def worst_gradient(a, b):
    """Each against its own size, or 1e-4 of all together where it is zero but for rounding."""
    if {k: v[0] for k, v in a.items()} != {k: v[0] for k, v in b.items()}:
        return float("inf")
    whole = norm([norm(v[1]) for v in a.values()])
    return max(norm([x - y for x, y in zip(v[1], b[k][1])]) / max(norm(v[1]), 1e-4 * whole) for k, v in a.items())


def main(build, family):
    mpirun = mpi.find(build, family)
    if not mpirun:
        print(f"SKIP: no {family}, or this build has no module for it")
        return 77
    env = mpi.environment()
    env["DLR_MPIRUN"] = mpirun
    dlrun = str(pathlib.Path(build) / "cli/dlrun")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-ranks-"))
    write_batches(folder / "b.safetensors", SHAPES, STEPS, 5)

    def start(ranks, name, *args, model=VIT):
        return subprocess.run([dlrun, "-n", str(ranks), *model, f"--expdir={folder / name}", *args],
                              stdin=subprocess.DEVNULL, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def replay(ranks, name, *args, model=VIT, batches="b"):
        done = start(ranks, name, f"--replay={folder / batches}.safetensors", f"--save_grads={folder / name}.g", *args,
                     model=model)
        check(done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr[-300:]}")
        losses = [json.loads(line)["loss"] for line in done.stdout.splitlines() if line.startswith("{")]
        check(len(losses) == STEPS, f"{name}: {len(losses)} losses, of rank 0 alone {STEPS}")
        return losses, folder / f"{name}.g"

    def same(one, many, name):
        off = max((abs(a - b) / abs(a) for a, b in zip(one[0], many[0])), default=1)
        check(len(one[0]) == len(many[0]) and off <= BOUND, f"{name}: losses differ by {off:.1e}")
        gradients = worst_gradient(read_tensors(one[1]), read_tensors(many[1])) if many[1].exists() else float("inf")
        check(gradients <= BOUND, f"{name}: gradients differ by {gradients:.1e}")

    one = replay(1, "one")
    again, more = (replay(ranks, f"data{ranks}", "--bucket_cap_mb=1") for ranks in (2, 4))
    same(one, again, "2 ranks with their own samples")
    same(one, more, "4 ranks with their own samples")
    check(again[0] == replay(2, "more", "--bucket_cap_mb=1")[0], "the same twice")
    check(again[1].read_bytes() == (folder / "more.g").read_bytes(), "the same gradients twice")
    # in the MPI library's order; the ranks' is the default
    same(one, replay(4, "sums", "--bucket_cap_mb=1", "--comm_order=mpi"), "4 ranks, sums by MPI")
    for args, says in ((["--comm_order=ordered"], "fixed, mpi"),
                       (["--comm_ordr=fixed"], r"did you mean '--comm_order'"),
                       (["--comm_order=mpi", "--tensor_parallel=2"], "with tensor_parallel some sums are of"),
                       (["--comm_order=mpi", "--zero=1"], "with zero some sums are of")):
        done = start(2 if "--tensor_parallel=2" in args else 1, "refused", "--data_loader_config=synthetic", *args)
        check(done.returncode == 2 and re.search(says, done.stderr), f"{args}: {done.returncode} {done.stderr[-300:]}")
    layouts = [(4, ["--tensor_parallel=2", "--context_parallel=2"]), (2, ["--tensor_parallel=2"]),
               (4, ["--tensor_parallel=2"]),
               (4, ["--tensor_parallel=4"]), (2, ["--context_parallel=2"]), (4, ["--context_parallel=4"])]
    for ranks, args in (l for i, l in enumerate(layouts) if takes(i)):
        same(one, replay(ranks, "_".join([str(ranks), *args]).strip("-"), *args), " ".join(args))
    rings = [(4, ["--context_parallel=4"]), (2, ["--context_parallel=2"]),
             (4, ["--tensor_parallel=2", "--context_parallel=2"])]
    for ranks, args in (r for i, r in enumerate(rings) if takes(i)):
        same(one, replay(ranks, "_".join(["ring", *args]), "--cp_comm_type=p2p", *args),
             "round a ring, " + " ".join(args))
    # who looks back: some turns of a ring bring keys that nobody here sees, and another rank needs
    (folder / "back.dl").write_text("model Back():\n    input x: f32[N, T=23, E=8]\n    target t: f32[N, T, E]\n"
                                    "    y = x |> linear(16) @in\n"
                                    "    y = y + attention(y |> linear(16) @q, y |> linear(16) @k, y |> linear(16) @v, "
                                    "2, causal=true) |> linear(8) @out\n"
                                    "    output y\n    loss = mean((y - t)**2)\n")
    write_batches(folder / "back.safetensors", {"x": [4, 23, 8], "t": [4, 23, 8]}, STEPS, 6)
    alone, ring = (replay(ranks, f"back{ranks}", *args,
                          model=[str(folder / "back.dl"), "--lr=1e-3", "--lr_schedule=none", "--global_batch_size=4",
                                 "--threads=1"],
                          batches="back")
                   for ranks, args in ((1, []), (4, ["--context_parallel=4", "--cp_comm_type=p2p"])))
    same(alone, ring, "who looks back, round a ring")
    dropped = replay(1, "drop1", "--dropout=0.1")
    same(dropped, replay(2, "drop2", "--dropout=0.1"), "dropout by the number of the sample")
    for ranks, args in (l for i, l in enumerate(layouts[:2] + [(4, ["--context_parallel=2"])]) if takes(i)):
        same(dropped, replay(ranks, "_".join(["drop", *args]), "--dropout=0.1", *args), "dropout, " + " ".join(args))
    same(dropped, replay(4, "dropround", "--dropout=0.1", "--context_parallel=4", "--cp_comm_type=p2p"),
         "dropout, round a ring")
    check(dropped[0] != one[0], "dropout drops")

    # stopped, and gone on with by as many ranks and by one
    run = ["--data_loader_config=synthetic", "--limit_nsamples=16", "--limit_nsamples_val=4", "--num_iters=12"]

    def valid(name):
        points = run_points(folder / name)
        return points[-1].get("Loss/valid") if points else None

    for args in (a for i, a in enumerate(([], ["--tensor_parallel=2"])) if turn(i)):
        kind = "tp" if args else "dp"
        done = start(2, f"whole_{kind}", *run, *args)
        check(done.returncode == 0, f"a whole run: {done.stderr[-300:]}")
        done = start(2, f"part_{kind}", *run, *args, "--stop_after=5")
        check(done.returncode == 75, f"stop_after: exit {done.returncode}")
        checkpoint = next((folder / f"part_{kind}").rglob("checkpoints")).parent
        done = start(1, f"alone_{kind}", *run, f"--resume={checkpoint}")
        check(done.returncode == 0 and re.search(r"going on from step 5\b", done.stderr),
              f"one rank goes on: {done.stderr[-300:]}")
        done = start(2, f"part_{kind}", *run, *args, "--resume")
        check(done.returncode == 0, f"two go on: {done.stderr[-300:]}")
        want, part, alone = (valid(f"{name}_{kind}") for name in ("whole", "part", "alone"))
        check(want is not None and want == part, f"{kind}: the bits of an unbroken run, {want} and {part}")
        check(want is not None and alone is not None and abs(alone - want) <= 1e-5 * abs(want),
              f"{kind}: one rank's, {want} and {alone}")
        logs = list((folder / f"whole_{kind}").rglob("out.log"))
        check(len(logs) == 1 and logs[0].parts[-3] == "2GPU", f"one log, in the directory of two ranks: {logs}")

    # tokens that do not divide: the ranks of a sample have as many, others more
    done = start(4, "uneven", *run[:-1], "--num_iters=1", "--tensor_parallel=2", "--context_parallel=2")
    check(done.returncode == 0, f"uneven tokens between pieces: {done.stderr[-300:]}")

    # ranks that train alone part, and are found out; those that train together do not
    quick = ["--data_loader_config=synthetic", "--limit_nsamples=16", "--limit_nsamples_val=4", "--num_iters=4",
             "--check_replicas=2"]
    done = start(2, "alone", *quick, "--noddp")
    check(done.returncode == 3 and re.search(r"the weights after step 2 of rank 1 is not that of rank 0", done.stderr),
          f"replicas: {done.stderr[-300:]}")
    done = start(2, "together", *quick, "--profile")
    check(done.returncode == 0, f"replicas that are alike: {done.stderr[-300:]}")

    # system E's rate grows with the ranks, over a warm-up from that of one
    def rates(name, *args):
        done = start(2, name, "--data_loader_config=synthetic", "--limit_nsamples=16", "--limit_nsamples_val=4",
                     "--num_iters=12", *args)
        check(done.returncode == 0, f"{name}: {done.stderr[-300:]}")
        points = run_points(folder / name)
        return [p["Learning Rate"] for p in points if "Learning Rate" in p]

    scaled, rising = rates("linear", "--lr_scaling=linear"), rates("rising", "--lr_scaling=linear",
                                                                   "--lr_warmup_epochs=2",
                                                                   "--lr_schedule=[{start_epoch: 100, multiplier: 1}]")
    check(scaled and all(abs(r - 2e-3) < 1e-9 for r in scaled), f"rates by ranks: {scaled}")
    check(len(rising) == 3 and all(abs(r - w) < 1e-15 for r, w in zip(rising, (1.5e-3, 2e-3, 2e-3))),
          f"rates of a warm-up, round at an epoch's end: {rising}")

    # running statistics are rank 0's when it comes to validation: those of the weights that are saved, unless each
    # keeps its own
    (folder / "norm.dl").write_text("model Norm(m=0.9):\n    input x: f32[N, C=2, H=6, W=6]\n"
                                    "    target t: f32[N, C=2, H, W]\n"
                                    "    y = (x |> conv(4, 3, pad=1) @a |> batch_norm(momentum=m) @b |> relu |> "
                                    "conv(2, 1) @c)\n    output y\n"
                                    "    loss = mean((y - t)**2)\n")

    def normed(ranks, name, *args):
        done = subprocess.run([dlrun, "-n", str(ranks), str(folder / "norm.dl"), "--data_loader_config=synthetic",
                               "--global_batch_size=4", "--Nsamples=8",
                               "--Nsamples_val=16", "--num_epochs=1", "--lr_schedule=none", "--threads=1",
                               f"--expdir={folder / name}", *args],
                              stdin=subprocess.DEVNULL, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        check(done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr[-300:]}")
        return valid(name)

    saved = folder / "norm.safetensors"
    shared, own = normed(2, "shared", f"--save_weights={saved}"), normed(2, "own", "--disable_broadcast_buffers")
    held = normed(1, "held", f"--init_weights={saved}", "--start_lr=0", "--end_lr=0", "--m=1.0")
    check(None not in (shared, own, held) and abs(shared - held) <= BOUND * held,
          f"rank 0's running statistics: {shared}, alone {held}")
    check(own is not None and abs(own - held) > 10 * BOUND * held, f"each rank's own: {own}, rank 0's {held}")

    # a profile shows collectives, and what the program waited for them
    trace = json.loads(next((folder / "together").rglob("profile.json")).read_text())["traceEvents"]
    begun = [e for e in trace if e.get("cat") == "collective" and e["ph"] == "b"]
    ended = {e["id"]: e["ts"] for e in trace if e.get("cat") == "collective" and e["ph"] == "e"}
    waits = [e for e in trace if e.get("cat") == "wait"]
    check(begun and all(e["args"]["where"].startswith("models/vit.dl:") and ended[e["id"]] >= e["ts"] for e in begun),
          "collectives")
    check(len(waits) == len(begun) and all(e["dur"] >= 0 for e in waits), "waits")
    table = next((folder / "together").rglob("profile.txt")).read_text()
    check(re.search(r"^collectives: \d+ a step, under way for [\d.]+ ms, of which the program waited", table, re.M),
          "the table's line")

    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
