#!/usr/bin/env python3
"""Optimiser state in shares (--zero=1) by several ranks of an MPI, next to ranks that each keep all of it.

    check_zero.py BUILD

What is added up is added in the order of the ranks either way, and a step is element by element: without a common norm
all bits are the same, weights, gradients and checkpoints included. A norm adds its squares share by share: a few units
in the last place of float32 (6e-8) in the factor of clipping, for which 1e-6 stands here; as in check_training.py 1e-5
for another number of ranks. Which MPI carries it makes no difference (comm_check.c): the first that is there.
"""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import mpi  # noqa: E402
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
from check_training import read_tensors, write_batches  # noqa: E402
from checks import SHARE, check, finish, turn  # noqa: E402

# Products, whose weights lie row by row, and windows, whose weights lie in panels: along their channels (48 fill no
# panel for each of two ranks), along the outputs, and too small to be dealt out.
VIT = ["models/vit.dl", "--config", "base", "--img_size=[12,20]", "--n_in_channels=2", "--n_out_channels=2",
       "--embed_dim=64", "--depth=1",
       "--num_heads=4", "--patch_size=4"]
WINDOWS = """model Net():
    input x: f32[N, C=2, H=12, W=20]
    target t: f32[N, C=2, H=12, W=20]
    y = x |> conv(48, 3, pad=1) @a |> relu |> conv(128, 3, pad=1) @b |> relu |> conv(48, 3, pad=1) @c |> relu \
        |> conv(2, 3, pad=1) @d
    output y
    loss = mean((y - t)**2)
"""
SHAPES = {"x": [12, 2, 12, 20], "t": [12, 2, 12, 20]}
STEPS, BOUND = 4, 1e-6


def near(name, want, have, bound):
    """Each tensor next to its largest element."""
    x, y = read_tensors(want), read_tensors(have)
    off = max((max(abs(p - q) for p, q in zip(v[1], y[k][1])) / max(map(abs, v[1])) for k, v in x.items() if any(v[1])),
              default=math.inf)
    check(x.keys() == y.keys() and off <= bound, f"{name}: {have.name} is off by {off:.1e}")


def main(build):
    mpirun = mpi.find(build, "openmpi") or mpi.find(build, "mpich")
    if not mpirun:
        print("SKIP: no MPI, or this build has no module for it")
        return 77
    env = mpi.environment()
    env["DLR_MPIRUN"] = mpirun
    dlrun = str(pathlib.Path(build) / "cli/dlrun")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-zero-"))
    write_batches(folder / "b.safetensors", SHAPES, STEPS, 7)
    (folder / "net.dl").write_text(WINDOWS)
    windows = [str(folder / "net.dl")]

    def start(ranks, name, *args):
        return subprocess.run([dlrun, "-n", str(ranks), *args, "--lr_schedule=none", "--threads=1",
                               f"--expdir={folder / name}"],
                              stdin=subprocess.DEVNULL, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)

    def replay(ranks, zero, name, *args):
        """What a run says, and the files of its weights and gradients."""
        weights, gradients = folder / f"{name}{zero}.w", folder / f"{name}{zero}.g"
        done = start(ranks, f"{name}{zero}", *args, f"--zero={zero}", f"--replay={folder / 'b.safetensors'}",
                     f"--save_weights={weights}",
                     f"--save_grads={gradients}", "--global_batch_size=12", "--check_replicas=1", "--log_norms")
        check(done.returncode == 0, f"{name}, zero={zero}: exit {done.returncode}: {done.stderr[-300:]}")
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        check(len(said) == STEPS, f"{name}, zero={zero}: {len(said)} steps")
        return said, weights, gradients

    def same(ranks, name, *args, bits=True):
        a, b = (replay(ranks, zero, name, *args) for zero in (0, 1))
        for x, y in zip(a[0], b[0]):
            for key in x:
                exact = x[key] is None or (bits and "norm" not in key)
                ok = x[key] == y[key] if exact else abs(x[key] - y[key]) <= BOUND * abs(x[key])
                check(ok, f"{name}: {key} is {x[key]} and {y[key]}")
        for have, want in zip(b[1:], a[1:]):
            if not have.exists():
                check(False, f"{name}: no {have.name}")
            elif bits:
                check(have.read_bytes() == want.read_bytes(), f"{name}: other bits in {have.name}")
            else:
                near(name, want, have, BOUND)
        return a[0]

    adam, sgd = ["--optimizer=adam", "--lr=1e-3", "--weight_decay=0.01"], ["--optimizer=sgd", "--lr=0.05",
                                                                           "--momentum=0.9"]
    same(2, "adam", *VIT, *adam)
    if turn(0):
        same(4, "sgd", *windows, *sgd)
    if turn(1):
        same(3, "uneven", *windows, "--optimizer=adamw", "--lr=1e-3", "--weight_decay=0.01")
    if SHARE == 1:  # what they keep is dealt out as others' is
        same(2, "rmsprop", *windows, "--optimizer={name: RMSprop, momentum: 0.9, centered: true}", "--lr=1e-3")
        same(3, "adagrad", *windows, "--optimizer={name: Adagrad, initial_accumulator_value: 0.1}", "--lr=1e-2")
    if turn(0):
        same(2, "nadam", *windows, "--optimizer=nadam", "--lr=1e-3", "--amp_mode=fp16", "--loss_scale_init=33554432")
    if turn(1):
        said = same(2, "scaled", *windows, *adam, "--amp_mode=fp16", "--loss_scale_init=33554432")
        check({s["skipped"] for s in said} == {0, 1}, f"some steps are skipped, and some are not: {said}")
    if turn(1):
        same(4, "pieces", *VIT, *adam, "--tensor_parallel=2")
    if turn(0):
        same(2, "alike", *VIT, *adam, "--tensor_parallel=2")  # no two ranks have the same piece, both all else
    said = same(4, "clipped", *VIT, *adam, "--clip_grad_norm=0.1", bits=False)
    check(all(s["grad_norm"] > 0.1 for s in said), f"there is something to clip: {said}")

    # stopped, and gone on with by other ranks, with shares and without
    run = [*windows, "--optimizer=adam", "--lr=1e-3", "--global_batch_size=4", "--data_loader_config=synthetic",
           "--limit_nsamples=16",
           "--limit_nsamples_val=4", "--num_iters=12", "--torch_checkpoints"]

    def ends(ranks, name, *args, code=0):
        done = start(ranks, name, *run, *args)
        check(done.returncode == code, f"{name}: exit {done.returncode}: {done.stderr[-300:]}")
        return done

    def tensors(name):
        """What the newest checkpoint of a run holds, by file."""
        newest = max((folder / name).rglob("*.safetensors"), key=lambda p: p.stat().st_mtime).parent
        return {p.name: p for p in [*newest.glob("*.safetensors"), newest.parent / "ckpt.tar"]}

    ends(2, "whole", "--zero=0")
    ends(2, "part", "--zero=1", "--stop_after=5", code=75)
    stopped = f"--resume={next((folder / 'part').rglob('checkpoints')).parent}"
    for ranks, zero in ((2, 1), (2, 0), (4, 1)):
        name = f"on{ranks}{zero}"
        done = ends(ranks, name, f"--zero={zero}", stopped)
        check(re.search(r"going on from step 5\b", done.stderr), f"{name}: {done.stderr[-300:]}")
        want, have = tensors("whole"), tensors(name)
        check(want.keys() == have.keys() and len(want) == 3, f"{name}: {sorted(have)}")
        for file in want:
            if ranks == 2:
                check(have[file].read_bytes() == want[file].read_bytes(), f"{name}: other bits in {file}")
            elif file != "ckpt.tar":
                near(name, want[file], have[file], 1e-5)

    finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
