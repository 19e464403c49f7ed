"""dlrun as its users meet it: runs, stops, resumes and fails, on a model of two convolutions and crops of 16^3.

check_dlrun.py DLRUN [NAME... | long]     from the project's root; needs nothing but Python's own library
"""
import math
import os
import re
import sys

import dlrun_faults
import dlrun_resume
from checks import TMP, check, finish
from dlrun_runs import METRICS, folder, load_floats, load_header, points, read, small, weights


def test_run():
    """Every file of the run's directory, and the log word for word as system A's."""
    r = small("whole")
    check(r.returncode == 0 and r.stdout == "", f"a run ends with {r.returncode}: {r.stderr[-300:]}")
    log = read(f"{folder('whole')}/out.log")
    head = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - root - INFO - "
    lines = [r"rank 0, begin data loader init", r"rank 0, data loader initialized with config synthetic",
             r"Starting Training Loop\.\.\."]
    for epoch in (1, 2):
        lines += [rf"Time taken for epoch {epoch} is \d+\.\d+ sec, avg \d+\.\d+ samples/sec",
                  r"  Avg train loss=\d+\.\d{6}",
                  r"  Avg val loss=\d+\.\d{6}", r"  Avg val again=\d+\.\d{6}", r"  Avg val error 0=\d+\.\d{6}",
                  r"  Avg val error 1=\d+\.\d{6}", r"  Total validation time: \d+\.\d+ sec"]
    lines += [r"DONE ---- rank 0"]
    at = 0
    for line in lines:
        m = re.compile(rf"^{head}{line}$", re.M).search(log, at)
        check(m, f"out.log has, in this order, '{line}'")
        at = m.end() if m else at
    check("global_batch_size 2\n" in log, "the log tells the batch size that local_batch_size gave")

    p = points("whole")
    check([(x["epoch"], x["iteration"]) for x in p] == [(0, 0), (1, 8), (2, 16)],
          f"points at the start and each epoch: {p}")
    own = {f"{name}/{split}" for name in METRICS for split in ("train", "valid")}
    check(set(p[0]) == {"epoch", "iteration", "Loss/train", "Loss/valid"} | own, f"tags of the untrained point: {p[0]}")
    for x in p:
        for split in ("train", "valid"):
            check(x[f"again/{split}"] == x[f"Loss/{split}"], f"a metric is averaged as the loss is: {x}")
            check(0 < x[f"error 0/{split}"] != x[f"error 1/{split}"] > 0, f"each metric has values of its own: {x}")
    check(set(p[1]) == set(p[0]) | {"Learning Rate"}, f"tags of a point: {p[1]}")
    check(abs(p[1]["Learning Rate"] - 0.5e-3) < 1e-15 and p[2]["Learning Rate"] == 0, "half a cosine ends at zero")
    events = read(f"{folder('whole')}/logs/" + os.listdir(f"{folder('whole')}/logs")[0], "rb")
    for tag in (b"Loss/train", b"Loss/valid", b"Learning Rate", b"Avg iters per sec", b"Visualization", b"temperature",
                *(f"{name}/{split}".encode() for name in METRICS for split in ("train", "valid"))):
        check(tag in events, f"TensorBoard has {tag}")
    check(read(f"{folder('whole')}/prediction.png", "rb")[:8] == b"\x89PNG\r\n\x1a\n", "prediction.png is a PNG")
    check(re.search(r"^ +start_lr: 0\.001$", read(f"{folder('whole')}/hyperparams.yaml"), re.M),
          "hyperparams.yaml says what was used")
    model = load_header(f"{folder('whole')}/checkpoints/last/model.safetensors")
    check(model["down.weight"]["shape"] == [8, 4, 4, 4, 4] and model["up.weight"]["shape"] == [8, 5, 4, 4, 4],
          "the checkpoint has PyTorch's names and layouts")


def test_norms():
    """log_norms: of the gradients that are there to be saved, and of the weights after the step, in every place;
    nowhere without it."""
    g = f"{TMP}/norms.safetensors"
    for clip in ("0", "1e-3"):
        r = small(f"norms{clip}", "--log_norms", f"--clip_grad_norm={clip}", f"--save_grads={g}", samples=2)
        first, one, two = points(f"norms{clip}")
        check(not any("norm" in tag for tag in first), f"the untrained model has no norms: {first}")
        want = math.hypot(*load_floats(g))
        check(want > 1e-3, f"they are clipped: {want}")
        check(abs(one["grad_norm"] / want - 1) < 1e-5, f"of the gradients before clipping, in float32: {one}, {want}")
        want = math.hypot(*load_floats(f"{folder(f'norms{clip}')}/checkpoints/last/model.safetensors"))
        check(abs(two["weight_norm"] / want - 1) < 1e-5, f"of the weights that the step leaves: {two}, {want}")
        log = read(f"{folder(f'norms{clip}')}/out.log")
        for p in (one, two):
            for tag in ("grad_norm", "weight_norm"):
                check(f"  Avg {tag}={p[tag]:g}\n" in log, f"the log has {tag} of {p[tag]}")
        events = read(f"{folder(f'norms{clip}')}/logs/" + os.listdir(f"{folder(f'norms{clip}')}/logs")[0], "rb")
        check(b"grad_norm" in events and b"weight_norm" in events, "TensorBoard has them")
    r = small("clipped", "--clip_grad_norm=1e-3", samples=2)
    check(r.returncode == 0 and not any("norm" in tag for p in points("clipped") for tag in p),
          "clipping alone tells no norms")


def test_same_bits():
    """The same again: other threads, other data workers, another run."""
    for name, more in (("again", []), ("one", ["--threads=1"]), ("two", ["--threads=2"]),
                       ("none", ["--num_data_workers=0"]),
                       ("three", ["--num_data_workers=3"])):
        r = small(name, *more)
        check(r.returncode == 0 and points(name) == points("whole"), f"{name} {more}: the same losses")
        check(weights(name) == weights("whole"), f"{name} {more}: the same weights and optimiser state")
    r = small("seed", "--seed=1")
    check(points("seed")[1]["Loss/train"] != points("whole")[1]["Loss/train"], "another seed, another run")


if sys.argv[2:] == ["long"]:
    dlrun_faults.kill_often(1500, 500, 100)
    sys.argv.append("nothing else")
tests = {**globals(), **vars(dlrun_resume), **vars(dlrun_faults)}
for test_name, test in [(k, v) for k, v in tests.items() if k.startswith("test_")]:
    if len(sys.argv) == 2 or test_name[5:] in ["run"] + sys.argv[2:]:  # `run` leaves what others compare with
        test()
finish()
