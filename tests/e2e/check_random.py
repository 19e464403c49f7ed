"""Training with random numbers in its step (tests/data/dropout.dl; the ViT): the same bits on any number of threads and
when stopped and resumed, other numbers with another seed, for which nothing is compiled. An evaluation draws noise, the
same each time, and drops nothing.

check_random.py DLRUN     from the project's root; needs nothing but Python's own library
"""
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys

from checks import ENV, TMP, Gate, check, finish, run_points, save_file

ENV["DLR_CACHE_DIR"] = os.path.join(TMP, "cache")  # its own: what compiles, and what does not, is looked at
ENV["CC"] = f"{pathlib.Path(sys.argv[1]).resolve().parents[1]}/tests/compile_once cc"

DLRUN = os.path.abspath(sys.argv[1])


def arguments(expdir, *more):
    return [DLRUN, "tests/data/dropout.dl", "--data_loader_config=synthetic", "--data_size=16", "--local_batch_size=2",
            "--Nsamples=400",
            "--Nsamples_val=4", "--num_epochs=2", "--start_lr=1e-3", f"--expdir={TMP}/{expdir}", *more]


def run(args):
    return subprocess.run(args, capture_output=True, text=True, env=ENV, stdin=subprocess.DEVNULL)


def folder(expdir):
    return f"{TMP}/{expdir}/dropout-base/1GPU/00"


def result(expdir):
    """Losses, and the last checkpoint's weights and state, byte by byte."""
    found = [{k: v for k, v in p.items() if k not in ("Avg iters per sec", "Data wait time")}
             for p in run_points(folder(expdir))]
    for part in ("model", "optimizer"):
        with open(f"{folder(expdir)}/checkpoints/last/{part}.safetensors", "rb") as f:
            found.append(f.read())
    return found


def test_same_bits():
    r = run(arguments("whole"))
    check(r.returncode == 0 and "; compiled in" in r.stderr, f"a run with dropout: {r.returncode} {r.stderr[-300:]}")
    for threads in (1, 2, 3):
        r = run(arguments(f"threads{threads}", f"--threads={threads}"))
        check(r.returncode == 0 and "; plan from the cache" in r.stderr,
              f"{threads} threads: {r.returncode} {r.stderr[-300:]}")
        check(result(f"threads{threads}") == result("whole"), f"{threads} threads: the same bits")
    raw = result("whole")[-1]
    header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    at = header["random.step"]["data_offsets"][0] + 8 + struct.unpack("<Q", raw[:8])[0]
    check(struct.unpack("<q", raw[at : at + 8])[0] == 400, "the checkpoint holds the count of steps that drew")


def test_seed():
    """From the same weights: what differs is what was drawn (the data come in another order, too: so one batch a
    run)."""
    batch = {f"{n}.0": ([2, c, 16, 16, 16], [((k * 37) % 101) / 50 - 1 for k in range(2 * c * 16**3)])
             for n, c in (("x", 4), ("t", 5))}
    twice = {**batch, **{k.replace(".0", ".1"): v for k, v in batch.items()}}
    save_file(f"{TMP}/one.safetensors", twice)
    start = f"--init_weights={folder('whole')}/checkpoints/last/model.safetensors"
    said = {}
    for name, more in (("0", ["--seed=0"]), ("again", ["--seed=0"]), ("1", ["--seed=1"]),
                       ("big", ["--seed=9007199254740993"]),
                       ("near", ["--seed=9007199254740992"]), ("none", ["--seed=0", "--rate=0"]),
                       ("none1", ["--seed=1", "--rate=0"])):
        r = run(arguments("seeds", f"--replay={TMP}/one.safetensors", "--num_epochs=1", start, *more))
        check(r.returncode == 0, f"seed {name}: {r.returncode} {r.stderr[-300:]}")
        said[name] = [json.loads(line)["loss"] for line in r.stdout.splitlines()]
        if name in ("again", "1", "big", "near", "none1"):
            check("; plan from the cache" in r.stderr, f"seed {name} compiles nothing: {r.stderr[-300:]}")
    check(said["0"] == said["again"] and said["none"] == said["none1"],
          f"the same seed, the same numbers; without dropout any: {said}")
    drawn = [said[k][0] for k in ("0", "1", "big", "near", "none")]
    check(len(set(drawn)) == len(drawn), f"another seed, to the last bit of 64, other numbers: {said}")


def test_resume():
    """Stopped and killed again and again, and in the end the same bits. An epoch has 200 steps, and leaves a
    checkpoint."""
    for point, step, number in (("begin", 0, signal.SIGTERM), ("step", 90, signal.SIGTERM),
                                ("step", 91, signal.SIGKILL), ("step", 199, signal.SIGTERM),
                                ("step", 200, signal.SIGTERM), ("step", 201, signal.SIGTERM),
                                ("step", 390, signal.SIGKILL), ("step", 399, signal.SIGTERM)):
        gate = Gate(point, step)
        p = subprocess.Popen(arguments("cut", "--resume"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             env={**ENV, **gate.env}, text=True,
                             stdin=subprocess.DEVNULL)
        check(gate.wait(p), f"it comes to {point} {step}")
        p.send_signal(number)
        gate.open()
        said = p.communicate()[1]
        gate.close()
        check(p.returncode == (-9 if number == signal.SIGKILL else 75),
              f"{point} {step}, {number.name}: exit {p.returncode} {said[-300:]}")
    r = run(arguments("cut", "--resume"))
    check(r.returncode == 0, f"it comes to an end: {r.returncode} {r.stderr[-300:]}")
    check(result("cut") == result("whole"), "stopped and resumed: the same bits")


def test_vit():
    """The vision transformer with its dropout: it trains, the same on one thread and on three."""
    random.seed(3)
    shape = [2, 4, 16, 24]
    x = [[random.gauss(0, 1) for _ in range(2 * 4 * 16 * 24)] for _ in range(2)]
    save_file(f"{TMP}/vit.safetensors", {f"{n}.{i}": (shape, x[i % 2]) for i in range(40) for n in "xt"})
    with open(f"{TMP}/vit.yaml", "w") as f:
        f.write("base: {}\n")
    args = [DLRUN, "models/vit.dl", f"--replay={TMP}/vit.safetensors", f"--yaml_config={TMP}/vit.yaml", "--config",
            "base",
            "--img_size=[16,24]", "--n_in_channels=4", "--n_out_channels=4", "--embed_dim=32", "--depth=2",
            "--num_heads=4",
            "--local_batch_size=2", "--start_lr=2e-3", "--end_lr=2e-3"]
    said = [run([*args, *more])
            for more in (["--dropout=0.2"], ["--dropout=0.2", "--threads=1"], ["--dropout=0.2", "--threads=3"],
                                             ["--dropout=0.0"], ["--dropout=1.5"])]
    check(all(r.returncode == 0 for r in said[:4]), f"the ViT runs: {said[0].stderr[-300:]}")
    losses = [json.loads(line)["loss"] for line in said[0].stdout.splitlines()]
    check(len(losses) == 40 and losses[-1] < 0.95 * losses[0], f"it learns: {losses}")
    check(said[0].stdout == said[1].stdout == said[2].stdout != said[3].stdout, "the same on any number of threads")
    check(said[4].returncode == 3 and "from 0 to less than 1" in said[4].stderr,
          f"a rate of 1.5: {said[4].returncode} {said[4].stderr[-300:]}")


for test in (test_same_bits, test_seed, test_resume, test_vit):
    test()
finish()
