"""Runs of check_dlrun.py's model, and what they leave: points, weights, headers, prompt stops."""
import json
import os
import signal
import struct
import subprocess
import sys
import time

from checks import ENV, TMP, Gate, check, save_file

DLRUN = os.path.abspath(sys.argv[1])
MODEL = "tests/data/small.dl"
METRICS = ("again", "error 0", "error 1")  # of this model


def arguments(expdir, *more, samples=16):
    return [DLRUN, MODEL, "--data_loader_config=synthetic", "--data_size=16", "--local_batch_size=2",
            f"--Nsamples={samples}",
            "--Nsamples_val=4", "--num_epochs=2", "--start_lr=1e-3", f"--expdir={TMP}/{expdir}", *more]


def run(args, **env):
    return subprocess.run(args, capture_output=True, text=True, env={**ENV, **env}, stdin=subprocess.DEVNULL)


def small(expdir, *more, samples=16, **env):
    return run(arguments(expdir, *more, samples=samples), **env)


def folder(expdir):
    return f"{TMP}/{expdir}/small-base/1GPU/00"


def read(path, mode="r"):
    with open(path, mode) as f:
        return f.read()


def points(expdir):
    """metrics.jsonl without what a clock says."""
    lines = [json.loads(line) for line in read(f"{folder(expdir)}/metrics.jsonl").splitlines()]
    for p in lines:
        for clock in ("Avg iters per sec", "Data wait time", "time_per_epoch", "data_wait_time"):
            p.pop(clock, None)
    return lines


def weights(expdir):
    last = f"{folder(expdir)}/checkpoints/last"
    return read(f"{last}/model.safetensors", "rb"), read(f"{last}/optimizer.safetensors", "rb")


def load_header(path):
    raw = read(path, "rb")
    return json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])


def load_floats(path):
    """Every float32 of a file of safetensors."""
    raw, header = read(path, "rb"), load_header(path)
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    spans = [entry["data_offsets"]
             for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"]
    return [v for first, last in spans for (v,) in struct.iter_unpack("<f", raw[start + first : start + last])]


def interrupt(expdir, args, number, delay):
    """Starts a run, sends the signal once it has its first point and `delay` seconds are over, but no sooner than it
    hears what can be heard; its exit status."""
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV, text=True,
                         stdin=subprocess.DEVNULL)
    while p.poll() is None and not (os.path.exists(f"{folder(expdir)}/metrics.jsonl")
                                    and os.path.getsize(f"{folder(expdir)}/metrics.jsonl")):
        time.sleep(0.002)
    said = ""
    for line in p.stderr if number != signal.SIGKILL else ():
        said += line
        if "going on from" in line or "no checkpoint in" in line:
            break
    time.sleep(delay)
    if p.poll() is None:
        p.send_signal(number)
    _, text = p.communicate()
    return p.returncode, said + text


def stop_at(expdir, args, point, number, signal_number):
    """Stops at the gate, sends the signal there, and lets it go on; (exit status, what it printed)."""
    gate = Gate(point, number)
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**ENV, **gate.env}, text=True,
                         stdin=subprocess.DEVNULL)
    check(gate.wait(p), f"it comes to {point} {number}")
    p.send_signal(signal_number)
    gate.open()
    text = p.communicate()[1]
    gate.close()
    return p.returncode, text


def batches(path, n, **replace):
    tensors = {}
    for i in range(n):
        tensors[f"x.{i}"] = ([2, 4, 16, 16, 16], [((k * 37 + i) % 101) / 50 - 1 for k in range(2 * 4 * 16**3)])
        tensors[f"t.{i}"] = ([2, 5, 16, 16, 16], [((k * 53 + i) % 97) / 50 - 1 for k in range(2 * 5 * 16**3)])
    tensors.update(replace)
    save_file(path, {k: v for k, v in tensors.items() if v})
