"""dlrun as its users meet it: runs, stops, resumes and fails, on a model of two convolutions and crops of 16^3.

check_dlrun.py DLRUN [NAME...]     from the project's root; needs nothing but Python's own library
"""
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

DLRUN = os.path.abspath(sys.argv[1])
MODEL = "tests/data/small.dl"
passed = failed = 0
work = tempfile.TemporaryDirectory(prefix="dlrun_test_")
TMP = work.name
ENV = {k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")}
ENV["DLR_CACHE_DIR"] = os.path.join(TMP, "cache")


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"failed: {what}")


def arguments(expdir, *more, samples=16):
    return [DLRUN, MODEL, "--data_loader_config=synthetic", "--data_size=16", "--local_batch_size=2", f"--Nsamples={samples}",
            "--Nsamples_val=4", "--num_epochs=2", "--start_lr=1e-3", f"--expdir={TMP}/{expdir}", *more]


def run(args, **env):
    return subprocess.run(args, capture_output=True, text=True, env={**ENV, **env}, stdin=subprocess.DEVNULL)


def small(expdir, *more, samples=16, **env):
    return run(arguments(expdir, *more, samples=samples), **env)


def folder(expdir):
    return f"{TMP}/{expdir}/base/1GPU/00"


def read(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def points(expdir):
    """metrics.jsonl without what a clock says."""
    lines = [json.loads(line) for line in read(f"{folder(expdir)}/metrics.jsonl").splitlines()]
    for p in lines:
        p.pop("Avg iters per sec", None)
    return lines


def weights(expdir):
    last = f"{folder(expdir)}/checkpoints/last"
    return read(f"{last}/model.safetensors", "rb"), read(f"{last}/optimizer.safetensors", "rb")


def save_file(path, tensors):
    """Safetensors of f32: {name: (shape, list of numbers)}."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load_header(path):
    raw = read(path, "rb")
    return json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])


def test_run():
    """Every file of the run's directory, and the log word for word as system A's."""
    r = small("whole")
    check(r.returncode == 0 and r.stdout == "", f"a run ends with {r.returncode}: {r.stderr[-300:]}")
    log = read(f"{folder('whole')}/out.log")
    head = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - root - INFO - "
    lines = [r"rank 0, begin data loader init", r"rank 0, data loader initialized with config synthetic", r"Starting Training Loop\.\.\."]
    for epoch in (1, 2):
        lines += [rf"Time taken for epoch {epoch} is \d+\.\d+ sec, avg \d+\.\d+ samples/sec", r"  Avg train loss=\d+\.\d{6}",
                  r"  Avg val loss=\d+\.\d{6}", r"  Total validation time: \d+\.\d+ sec"]
    lines += [r"DONE ---- rank 0"]
    at = 0
    for line in lines:
        m = re.compile(rf"^{head}{line}$", re.M).search(log, at)
        check(m, f"out.log has, in this order, '{line}'")
        at = m.end() if m else at
    check("global_batch_size 2\n" in log, "the log tells the batch size that local_batch_size gave")

    p = points("whole")
    check([(x["epoch"], x["iteration"]) for x in p] == [(0, 0), (1, 8), (2, 16)], f"points at the start and each epoch: {p}")
    check(set(p[0]) == {"epoch", "iteration", "Loss/train", "Loss/valid"}, f"tags of the untrained point: {p[0]}")
    check(set(p[1]) == set(p[0]) | {"Learning Rate"}, f"tags of a point: {p[1]}")
    check(abs(p[1]["Learning Rate"] - 0.5e-3) < 1e-15 and p[2]["Learning Rate"] == 0, "half a cosine ends at zero")
    events = read(f"{folder('whole')}/logs/" + os.listdir(f"{folder('whole')}/logs")[0], "rb")
    for tag in (b"Loss/train", b"Loss/valid", b"Learning Rate", b"Avg iters per sec", b"Visualization", b"temperature"):
        check(tag in events, f"TensorBoard has {tag}")
    check(read(f"{folder('whole')}/prediction.png", "rb")[:8] == b"\x89PNG\r\n\x1a\n", "prediction.png is a PNG")
    check(re.search(r"^ +start_lr: 0\.001$", read(f"{folder('whole')}/hyperparams.yaml"), re.M), "hyperparams.yaml says what was used")
    model = load_header(f"{folder('whole')}/checkpoints/last/model.safetensors")
    check(model["down.weight"]["shape"] == [8, 4, 4, 4, 4] and model["up.weight"]["shape"] == [8, 5, 4, 4, 4],
          "the checkpoint has PyTorch's names and layouts")


def test_same_bits():
    """The same again: other threads, other data workers, another run."""
    for name, more in (("again", []), ("one", ["--threads=1"]), ("two", ["--threads=2"]), ("none", ["--num_data_workers=0"]),
                       ("three", ["--num_data_workers=3"])):
        r = small(name, *more)
        check(r.returncode == 0 and points(name) == points("whole"), f"{name} {more}: the same losses")
        check(weights(name) == weights("whole"), f"{name} {more}: the same weights and optimiser state")
    r = small("seed", "--seed=1")
    check(points("seed")[1]["Loss/train"] != points("whole")[1]["Loss/train"], "another seed, another run")


def interrupt(expdir, args, number, delay):
    """Starts a run, sends the signal once it has its first point and `delay` seconds are over; its exit status."""
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV, text=True, stdin=subprocess.DEVNULL)
    while p.poll() is None and not (os.path.exists(f"{folder(expdir)}/metrics.jsonl") and os.path.getsize(f"{folder(expdir)}/metrics.jsonl")):
        time.sleep(0.002)
    time.sleep(delay)
    if p.poll() is None:
        p.send_signal(number)
    _, text = p.communicate()
    return p.returncode, text


def test_stop_and_resume():
    """Stopped again and again, by asking and by killing: in the end the same bits as never stopped."""
    n = 600
    began = time.time()
    check(small("long", samples=n).returncode == 0, "the uninterrupted run")
    span = time.time() - began
    asked, middle = 0, 0
    signals = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGKILL]
    for i in range(40):
        rc, text = interrupt("cut", arguments("cut", "--resume", samples=n), signals[i % 4], span / 8)
        if rc == 0:
            break
        check(rc == (-9 if i % 4 == 3 else 75), f"stopped by {signals[i % 4].name}: exit {rc}: {text[-300:]}")
        if rc == 75:
            asked += 1
            check("--resume" in text.splitlines()[-1], "it says how to go on")
            state = json.load(open(f"{folder('cut')}/checkpoints/last/state.json"))
            middle += 0 < state["position"] < n // 2
    check(rc == 0, f"it comes to an end: {rc} {text[-300:]}")
    check(asked >= 2 and middle >= 1, f"it was stopped {asked} times, {middle} in the middle of an epoch")
    check(points("cut") == points("long"), f"the same points: {points('cut')} and {points('long')}")
    check(weights("cut") == weights("long"), "the same weights and optimiser state to the last bit")
    old = read(f"{folder('cut')}/metrics.jsonl")
    r = small("cut", "--resume", samples=n)
    check(r.returncode == 0 and "DONE" in r.stderr and read(f"{folder('cut')}/metrics.jsonl") == old, "resuming what is done changes nothing")


def test_anew():
    """The same command again is a new run; what was there is kept aside, and --resume without anything starts."""
    r = small("whole")
    check(r.returncode == 0 and "checkpoints.old" in r.stderr, "the second run says what became of the first")
    check(os.path.isdir(f"{folder('whole')}/checkpoints.old/last") and os.path.exists(f"{folder('whole')}/metrics.jsonl.old"), "it is kept")
    check(len(points("whole")) == 3, "points are those of the new run alone")
    r = small("fresh", "--resume")
    check(r.returncode == 0 and "no checkpoint" in r.stderr and points("fresh") == points("whole"), "--resume with nothing there starts")


def test_measure():
    r = small("bench", "--enable_benchy")
    check(r.returncode == 0 and "Avg val" not in r.stderr, "enable_benchy: no validation")
    check([x["iteration"] for x in points("bench")] == [8, 16] and "Loss/valid" not in points("bench")[0], "and no point at step 0")


def batches(path, n, **replace):
    tensors = {}
    for i in range(n):
        tensors[f"x.{i}"] = ([2, 4, 16, 16, 16], [((k * 37 + i) % 101) / 50 - 1 for k in range(2 * 4 * 16**3)])
        tensors[f"t.{i}"] = ([2, 5, 16, 16, 16], [((k * 53 + i) % 97) / 50 - 1 for k in range(2 * 5 * 16**3)])
    tensors.update(replace)
    save_file(path, {k: v for k, v in tensors.items() if v})


def test_replay():
    b, g = f"{TMP}/b.safetensors", f"{TMP}/g.safetensors"
    batches(b, 3)
    r = small("replay", f"--replay={b}", f"--save_grads={g}", "--end_lr=1e-3", "--init_weights=" + folder("whole") + "/checkpoints/last/model.safetensors")
    lines = [json.loads(x) for x in r.stdout.splitlines()]
    check(r.returncode == 0 and [x["step"] for x in lines] == [1, 2, 3], f"a line a batch and nothing else: {r.stdout} {r.stderr[-300:]}")
    check(all(0 < x["loss"] < 2 for x in lines) and lines[2]["loss"] < lines[0]["loss"], f"it learns: {r.stdout}")
    check(set(load_header(g)) - {"__metadata__"} == {"down.weight", "down.bias", "up.weight", "up.bias"}, "gradients by parameter name")
    r2 = small("replay2", f"--replay={b}", "--end_lr=1e-3", "--threads=1", "--init_weights=" + folder("whole") + "/checkpoints/last/model.safetensors")
    check(r2.stdout == r.stdout, "the same on one thread, gradients kept or not")

    batches(b, 2, **{"x.1": ([2, 4, 16, 16, 16], [float("nan")] * (2 * 4 * 16**3))})
    r = small("replay", f"--replay={b}")
    check(r.returncode == 7 and "step 2" in r.stderr and len(r.stdout.splitlines()) == 1, f"not a number: exit {r.returncode} {r.stderr[-200:]}")
    batches(b, 2, **{"t.1": None})
    r = small("replay", f"--replay={b}")
    check(r.returncode == 3 and "t.1" in r.stderr, f"a missing tensor: {r.returncode} {r.stderr[-200:]}")
    batches(b, 1, **{"x.0": ([1, 4, 16, 16, 16], [0.0] * (4 * 16**3))})
    r = small("replay", f"--replay={b}")
    check(r.returncode == 3 and "x.0" in r.stderr and "[1, 4, 16, 16, 16]" in r.stderr, f"another shape: {r.returncode} {r.stderr[-200:]}")


def test_not_finite():
    """A loss that is no number: exit 7, and the checkpoint before it is as it was."""
    check(small("nan", samples=16).returncode == 0, "a run to break")
    w = f"{TMP}/w.safetensors"
    raw = bytearray(read(f"{folder('nan')}/checkpoints/last/model.safetensors", "rb"))
    raw[-4:] = struct.pack("<f", float("nan"))
    with open(w, "wb") as f:
        f.write(raw)
    r = small("nan2", f"--init_weights={w}")
    check(r.returncode == 7 and "nan" in r.stderr.splitlines()[-1], f"weights with a NaN: exit {r.returncode} {r.stderr[-200:]}")
    r = small("nan3", "--start_lr=1e38", "--enable_benchy")
    check(r.returncode == 7 and re.search(r"step \d+, epoch \d+", r.stderr.splitlines()[-1]), f"diverged: exit {r.returncode} {r.stderr[-200:]}")
    check(not os.path.exists(f"{folder('nan3')}/checkpoints"), "nothing is saved of it")

    # the last step before a checkpoint, whose loss nobody works out any more
    once = ["--num_epochs=1", "--enable_benchy"]
    wild = ["--start_lr=1e300", "--end_lr=1e300"]
    r = small("nan4", *once, *wild, samples=2)
    last = r.stderr.splitlines()[-1]
    check(r.returncode == 7 and re.search(r"'\S+' has (nan|an infinity).*step 1, epoch 1", last), f"weights that are not finite: exit {r.returncode} {last}")
    check(os.listdir(f"{folder('nan4')}/checkpoints") == [], "nothing is saved of them")
    check(small("nan4", *once, "--resume", samples=2).returncode == 0, "a tamer run in the same place")
    old = weights("nan4"), os.readlink(f"{folder('nan4')}/checkpoints/last")
    r = small("nan4", "--num_epochs=2", "--enable_benchy", *wild, "--resume", samples=2)
    check(r.returncode == 7 and old == (weights("nan4"), os.readlink(f"{folder('nan4')}/checkpoints/last")), f"the checkpoint before stays: exit {r.returncode}")
    b, g = f"{TMP}/nan.safetensors", f"{TMP}/nan_grads.safetensors"
    batches(b, 1, **{"x.0": ([2, 4, 16, 16, 16], [float("nan")] * (2 * 4 * 16**3))})
    r = small("nan5", f"--replay={b}", f"--save_grads={g}")
    check(r.returncode == 7 and re.search(r"WARNING.*gradients.*'\S+'", r.stderr) and len(load_header(g)) == 4, f"gradients that are no numbers are what was asked for: {r.stderr[-400:]}")


def test_faults():
    """Each: its exit status, and one line that names the cause."""
    done = folder("whole")
    w = f"{TMP}/odd.safetensors"
    save_file(w, {"down.weight": ([1], [0.0]), "stray": ([1], [0.0])})
    for rc, pattern, args, env in (
        (2, r"start_lr", ["--start_lr=nan"], {}),
        (2, r"start_lr", ["--start_lr=-1"], {}),
        (2, r"did you mean|num_epochs", ["--num_epoch=2"], {}),
        (2, r"Nsamples.*batch|batch.*Nsamples", ["--Nsamples=1"], {}),
        (2, r"Nsamples_val", ["--Nsamples_val=1"], {}),
        (3, r"nosuch\.safetensors|No such file", ["--init_weights=/tmp/nosuch.safetensors"], {}),
        (3, r"down\.weight.*\n(.*\n)*.*up\.bias(.*\n)*.*stray", [f"--init_weights={w}"], {}),
        (5, r"cuda.*not in this version", ["--device=cuda"], {}),
        (5, r"WORLD_SIZE=2.*not in this version", [], {"WORLD_SIZE": "2"}),
        (5, r"SLURM_NTASKS=4.*not in this version", [], {"SLURM_NTASKS": "4"}),
        (4, r"nosuch\.h5", ["--data_loader_config=lowmem", "--train_path=/tmp/nosuch.h5"], {}),
        (4, r"small\.dl", ["--expdir=tests/data/small.dl"], {}),
        (2, r"seed", ["--resume", "--seed=7", f"--expdir={TMP}/whole"], {}),
        (3, r"width|down\.weight", ["--resume", "--width=4", f"--expdir={TMP}/whole"], {}),
    ):
        r = small("faults", *args, **env)
        want = (3, 4) if rc == 3 and "nosuch" in pattern else (2, 3) if rc == 2 else (rc,)
        check(r.returncode in want and re.search(pattern, r.stderr), f"{args} {env}: exit {r.returncode}, wanted {rc}: {r.stderr[-400:]}")
    check(os.path.exists(f"{done}/checkpoints/last/state.json"), "a refused resume leaves the run as it was")
    r = small("amp", "--enable_amp")
    check(r.returncode == 0 and "WARNING - enable_amp: not in this version; training in float32" in r.stderr, "enable_amp is said not to be there")


def test_lock():
    p = subprocess.Popen(arguments("busy", samples=4000), stderr=subprocess.PIPE, env=ENV, text=True)
    for line in p.stderr:
        if "Starting Training Loop" in line:
            break
    r = small("busy")
    p.kill()
    p.communicate()
    check(r.returncode == 2 and "another run" in r.stderr, f"two runs in one directory: {r.returncode} {r.stderr[-200:]}")


def test_programs_options():
    r = run([DLRUN, "--help"])
    check(r.returncode == 0 and len(r.stdout.splitlines()) > 20 and "--resume" in r.stdout, "--help")
    r = run([DLRUN, "--version"])
    check(r.returncode == 0 and r.stdout.startswith("dlrun "), "--version")
    r = small("dry", "--dry_run")
    check(r.returncode == 0 and "4621" in r.stdout and "MiB" in r.stdout and not os.path.exists(f"{TMP}/dry"), f"--dry_run: {r.stdout} {r.stderr}")


def test_plan_cache():
    cache = os.path.join(TMP, "plans")
    first = small("plan1", DLR_CACHE_DIR=cache)
    again = small("plan2", DLR_CACHE_DIR=cache, CC="/nonexistent", PATH="/nonexistent")
    check("; compiled in" in first.stderr and "; plan from the cache" in again.stderr, f"the second run finds its plan: {again.stderr[-300:]}")
    check(points("plan1") == points("plan2"), "a plan from the cache gives the same points, and needs no compiler")
    other = small("plan3", "--local_batch_size=4", DLR_CACHE_DIR=cache)
    check("; compiled in" in other.stderr, "another batch size is another plan")
    for name in os.listdir(cache):
        if name.endswith(".dlp"):
            with open(os.path.join(cache, name), "r+b") as f:
                f.seek(200)
                f.write(b"damage")
    mended = small("plan4", DLR_CACHE_DIR=cache)
    check("; compiled in" in mended.stderr and points("plan4") == points("plan1"), "a damaged plan is compiled anew")


for test_name, test in [(k, v) for k, v in globals().items() if k.startswith("test_")]:
    if len(sys.argv) == 2 or test_name[5:] in ["run"] + sys.argv[2:]:  # `run` leaves what others compare with
        test()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0 or passed == 0)
