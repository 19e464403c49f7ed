#!/usr/bin/env python3
"""System A's volumes in whole runs: the same numbers from HDF5, from .npy files with channels last, and from chunked
HDF5.

check_volumes.py BUILD     exit 77 without numpy and h5py

The model's metrics are means of what it was fed, so that a run's points say which crops came, and how they were turned.
"""
import json
import os
import subprocess
import sys

from checks import ENV, TMP, check, finish

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

DLRUN = os.path.abspath(sys.argv[1]) + "/cli/dlrun"
MODEL = """model Probe(data_size=6):
    input x: f32[N, C=4, D=data_size, H=data_size, W=data_size]
    target t: f32[N, K=5, D, H, W]
    y = x |> conv(1, 1) @head
    output y
    loss = mean(y**2) + 0 * mean(t)
    metric first = mean(x[C=0] * linspace(1, 2, over=H))
    metric last = mean(x[C=3] * linspace(0, 3, over=W))
    metric target = mean(t[K=4] * linspace(1, 4, over=D))
"""


def write_data():
    random = np.random.default_rng(3)
    os.makedirs(f"{TMP}/cache_of_it")
    for part in ("train", "val"):
        x, t = (random.normal(size=(c, 20, 20, 20)).astype("f4") for c in (4, 5))
        for name, options in (("plain", {}),
                              ("packed", dict(chunks=(2, 7, 8, 9), compression="gzip", shuffle=True, fletcher32=True))):
            with h5py.File(f"{TMP}/{part}_{name}.h5", "w") as f:
                f.create_dataset("Nbody", data=x, **options), f.create_dataset("Hydro", data=t, **options)
        for name, data in (("data", x), ("label", t)):
            np.save(f"{TMP}/cache_of_it/{part}_{name}.npy",
                    np.moveaxis(data, 0, -1).astype(">f8" if part == "val" else "f4"))


def train(name, *more):
    r = subprocess.run([DLRUN, "probe.dl", f"--run_num={name}", "--expdir=runs", "--Nsamples=12", "--Nsamples_val=4",
                        "--num_epochs=2",
                        "--global_batch_size=4", "--data_size=6", "--num_data_workers=2", *more], cwd=TMP, env=ENV,
                       text=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(r.returncode == 0, f"{name}: {r.stderr[-600:]}")
    found = [os.path.join(d, "metrics.jsonl")
             for d, _, files in os.walk(f"{TMP}/runs") if d.endswith(f"/{name}") and "metrics.jsonl" in files]
    points = []
    for line in open(found[0]) if found else []:
        points.append({k: v for k, v in json.loads(line).items() if "Avg" not in k and "time" not in k})
    return points, r


def main():
    os.makedirs(TMP, exist_ok=True)
    with open(f"{TMP}/probe.dl", "w") as f:
        f.write(MODEL)
    write_data()
    plain = [f"--train_path={TMP}/train_plain.h5", f"--val_path={TMP}/val_plain.h5"]
    npy = [f"--{part}_path_npy_{what}=elsewhere/{part}_{what}.npy" for part in ("train", "val")
           for what in ("data", "label")]
    whole, _ = train("plain", *plain)
    check(len(whole) > 1 and any("first/valid" in p for p in whole), f"there are points to compare: {whole}")
    packed, _ = train("packed", f"--train_path={TMP}/train_packed.h5", f"--val_path={TMP}/val_packed.h5")
    check(packed == whole, f"chunked and compressed: {packed} {whole}")
    last, r = train("last", "--data_loader_config=dali-lowmem", "--train_path=none.h5", "--val_path=none.h5", *npy,
                    f"--use_cache={TMP}/cache_of_it")
    check(last == whole and "is not there" not in r.stderr,
          f"channels last, in the folder of use_cache: {last} {whole} {r.stderr[-300:]}")
    absent, r = train("absent", "--data_loader_config=dali-lowmem", *plain, *npy)
    check(absent == whole, "without the .npy files the HDF5 files are read,")
    log = r.stderr + r.stdout
    check("of its four .npy files elsewhere/train_data.npy is not there" in log, f"and that is said: {log[-500:]}")


main()
finish()
