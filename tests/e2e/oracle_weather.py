#!/usr/bin/env python3
"""System D's data in whole runs, next to h5py and numpy: what a model sees, on any number of workers, stopped and
resumed.

oracle_weather.py BUILD

The model's metrics are means of what it was fed, so that a run's points say which samples came, in which pairs and how
normalised. The reference is written after the description of system D's loader (samples of a year from the first file,
pairs by dt).
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys

from checks import ENV, TMP, check, finish, run_points

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

DLRUN = os.path.abspath(sys.argv[1]) + "/cli/dlrun"
C, LAT, LON, H, W, TIMES, BATCH = 3, 7, 9, 4, 6, 20, 4
MODEL = """model Probe(img_size=[4, 6], n_in_channels=3, n_out_channels=3):
    input x: f32[N, C=n_in_channels, H=img_size[0], W=img_size[1]]
    target t: f32[N, C=n_out_channels, H, W]
    y = x |> conv(n_out_channels, 1) @head
    output y
    loss = mse_loss(y, t)
    metric first = mean(x[C=0] * linspace(1, 2, over=H))
    metric last = mean(t[C=2] * linspace(0, 3, over=W))
    metric pair = mean(x * t)
    metric square = mean(mean(x, over=[C,H,W])**2)
"""


def write_years(folder, years, seed, **how):
    os.makedirs(folder)
    random = np.random.default_rng(seed)
    for name in years:
        with h5py.File(f"{folder}/{name}.h5", "w") as f:
            slow = random.standard_normal((TIMES, 1, 1, 1)) * 3
            scale = np.array([1, 40, 3e4]).reshape(1, C, 1, 1)
            fields = ((random.standard_normal((TIMES, C, LAT, LON)) + slow) * scale +
                      7 * scale).astype(how.get("dtype", "f4"))
            f.create_dataset("fields", data=fields / np.array(how.get("scale_factor", 1), fields.dtype),
                             **{k: v for k, v in how.items() if k not in ("dtype", "scale_factor")})
            if "scale_factor" in how:
                f["fields"].attrs["scale_factor"] = how["scale_factor"]


class Reference:
    """The samples of a folder by number."""

    def __init__(self, folder, dt):
        self.files = [h5py.File(p, "r")["fields"] for p in sorted(glob.glob(f"{folder}/*.h5"))]
        self.a_year, self.dt = self.files[0].shape[0], dt
        self.mean, self.std = np.load(f"{TMP}/means.npy")[0], np.load(f"{TMP}/stds.npy")[0]

    def __len__(self):
        return len(self.files) * self.a_year

    def __getitem__(self, i):
        year, local = divmod(i, self.a_year)
        local %= self.a_year - self.dt
        if local < self.dt:
            local += self.dt
        return [(self.files[year][k, :, :H, :W].astype(np.float32) - self.mean) / self.std
                for k in (local, local + self.dt)]

    def metrics(self, numbers):
        x, t = (np.stack(a).astype(np.float64) for a in zip(*(self[i] for i in numbers)))
        return {"first": (x[:, 0] * np.linspace(1, 2, H)[:, None]).mean(),
                "last": (t[:, 2] * np.linspace(0, 3, W)).mean(),
                "pair": (x * t).mean(), "square": (x.mean((1, 2, 3)) ** 2).mean()}


def options(train, *more):
    return [f"{TMP}/probe.dl", f"--train_data_path={TMP}/{train}", f"--valid_data_path={TMP}/valid",
            f"--global_means_path={TMP}/means.npy",
            f"--global_stds_path={TMP}/stds.npy", f"--local_batch_size={BATCH}", "--lr=1e-2", "--lr_schedule=none",
            "--seed=5", *more]


def run(*args):
    return subprocess.run([DLRUN, *args], capture_output=True, text=True, env=ENV, stdin=subprocess.DEVNULL)


def points(name):
    return [{k: v for k, v in p.items() if "per sec" not in k and "time" not in k} for p in run_points(f"{TMP}/{name}")]


def weights(name):
    with open(f"{TMP}/{name}.safetensors", "rb") as f:
        return f.read()


def train(name, folder, *more):
    r = run(*options(folder, *more), f"--expdir={TMP}/{name}", f"--save_weights={TMP}/{name}.safetensors")
    check(r.returncode == 0, f"{name} {more}: exit {r.returncode}: {r.stderr[-500:]}")
    return points(name), r.stderr


def refused(code, pattern, *args):
    r = run(*args, f"--expdir={TMP}/no")
    check(r.returncode == code and re.search(pattern, r.stderr),
          f"exit {r.returncode}, wanted {code} and /{pattern}/: {r.stderr[-500:]}")


def near(point, split, want, what):
    for k, v in want.items():
        check(abs(point[f"{k}/{split}"] - v) < 1e-5 * (abs(v) + 0.1),
              f"{what}: {k}/{split} is {point[f'{k}/{split}']}, not {v}")


def test_samples():
    """Each epoch of training is all samples, validation the first ones in order; the first point one batch."""
    for dt in 1, 3:
        a, v = Reference(f"{TMP}/years", dt), Reference(f"{TMP}/valid", dt)
        seen, err = train(f"plain{dt}", "years", f"--dt={dt}", "--num_epochs=2", "--data_loader_config=pytorch")
        check([p["iteration"] for p in seen] == [0, 15, 30], f"60 samples in batches of 4: {seen}")
        near(seen[0], "valid", v.metrics(range(BATCH)), f"dt {dt}, first batch")
        for p in seen[1:]:
            near(p, "train", a.metrics(range(len(a))), f"dt {dt}, an epoch")
            near(p, "valid", v.metrics(range(len(v))), f"dt {dt}, validation")
        check("data loader initialized with config pytorch" in err, "the loader is logged")
    a = Reference(f"{TMP}/years", 1)
    seen, _ = train("limited", "years", "--num_epochs=1", "--limit_nsamples=24", "--limit_nsamples_val=11",
                    "--data_loader_config=dali")
    check(seen[1]["iteration"] == 6, f"24 samples: {seen}")
    near(seen[1], "train", a.metrics(range(24)), "the first 24")
    near(seen[1], "valid", Reference(f"{TMP}/valid", 1).metrics(range(11)), "the first 11, three in the last batch")


def test_same_bits():
    """Any number of workers, chunked files, and a stop: the same points and weights."""
    whole, _ = train("w0", "years", "--num_epochs=3", "--num_data_workers=0")
    for w in 1, 4:
        check(train(f"w{w}", "years", "--num_epochs=3", f"--num_data_workers={w}")[0] == whole
              and weights("w0") == weights(f"w{w}"), f"{w} workers")
    packed, err = train("packed", "packed", "--num_epochs=3")
    check(packed == whole and weights("packed") == weights("w0"), "chunked and compressed files hold the same")
    check(train("scaled", "scaled", "--num_epochs=3")[0] == whole and weights("scaled") == weights("w0"),
          "numbers stand for others by scale_factor")
    check("data_loader_config pytorch" in err, "train_data_path alone chooses the loader")
    os.makedirs(f"{TMP}/disk")
    os.symlink(f"{TMP}/years", f"{TMP}/disk/elsewhere"), os.symlink(f"{TMP}/valid", f"{TMP}/disk/valid")
    cached, _ = train("cached", "elsewhere", "--num_epochs=3", f"--use_cache={TMP}/disk")
    check(cached == whole, "use_cache: the folder's copy")
    train("cut", "years", "--num_epochs=1")
    check(train("cut", "years", "--num_epochs=3", "--resume")[0] == whole and weights("cut") == weights("w0"),
          "cut between epochs and resumed")
    other, _ = train("seed", "years", "--num_epochs=3", "--seed=6", f"--init_weights={TMP}/w0.safetensors")
    again, _ = train("again", "years", "--num_epochs=3", f"--init_weights={TMP}/w0.safetensors")
    check(other[1]["Loss/train"] != again[1]["Loss/train"], "another seed, another order")


def test_stopped():
    """Stopped within an epoch, wherever that is, and resumed with other workers."""
    long = ["--num_epochs=60", "--enable_benchy"]
    whole, _ = train("unbroken", "years", *long)
    args = options("years", *long, f"--expdir={TMP}/stopped", f"--save_weights={TMP}/stopped.safetensors")
    stops = 0
    for more in [], ["--resume", "--num_data_workers=0"], ["--resume", "--num_data_workers=3"]:
        p = subprocess.Popen([DLRUN, *args, *more], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                             env=ENV)
        for line in p.stderr:
            if "Time taken for epoch" in line:
                p.send_signal(signal.SIGTERM)
                break
        p.stderr.read(), p.wait()
        stops += p.returncode == 75
        check(p.returncode in (0, 75), f"stopped: exit {p.returncode}")
    check(stops > 0, "it was stopped at least once")
    r = run(*args, "--resume", "--num_data_workers=1")
    check(r.returncode == 0 and points("stopped")[-1] == whole[-1] and weights("stopped") == weights("unbroken"),
          f"resumed to the same bits: {r.stderr[-300:]}")


def test_faults():
    shutil.copytree(f"{TMP}/years", f"{TMP}/nan")
    with h5py.File(f"{TMP}/nan/2001.h5", "r+") as f:
        f["fields"][11, 1, 2, 3] = np.nan
    refused(3, r"nan/2001\.h5: 'fields' \[time 11, channel 1, lat 2, lon 3\] is nan", *options("nan", "--num_epochs=1"))
    with h5py.File(f"{TMP}/nan/2001.h5", "r+") as f:  # a fill value is no temperature
        f["fields"][11, 1, 2, 3], f["fields"].attrs["_FillValue"] = -9999, np.float32(-9999)
    refused(3, r"nan/2001\.h5: 'fields' \[time 11, channel 1, lat 2, lon 3\] is nan", *options("nan", "--num_epochs=1"))
    refused(3, r"1999b\.h5: 'fields' is \[20, 3, 7, 9\] f32: a crop of 8 x 6", *options("years", "--img_size=[8,6]"))
    refused(3, r"that is 3 channels, but the model's input has 4",
            *options("years", "--n_in_channels=4", "--n_out_channels=4"))
    refused(3, r"dt of 7 pairs times", *options("years", "--dt=7"))
    refused(4, r"train_data_path: cannot read the folder .*/nowhere", *options("nowhere"))
    refused(4, r"global_stds_path: cannot open .*none\.npy", *options("years", f"--global_stds_path={TMP}/none.npy"))
    refused(2, r"global_means_path is not set", *options("years", "--global_means_path=null"))
    refused(2, r"valid_data_path is not set", *options("years", "--valid_data_path=null"))
    refused(2, r"limit_nsamples: training has 3 samples, which fill no batch of 4",
            *options("years", "--limit_nsamples=3"))


write_years(f"{TMP}/years", ["2000", "2001", "1999b"], 1)
write_years(f"{TMP}/packed", ["2000", "2001", "1999b"], 1, chunks=(1, C, LAT, 5), compression="gzip", shuffle=True)
write_years(f"{TMP}/scaled", ["2000", "2001", "1999b"], 1, scale_factor=0.5)
write_years(f"{TMP}/valid", ["x", "y"], 2)
np.save(f"{TMP}/means.npy", np.array([7, 280, 2.1e5], "f4").reshape(1, C, 1, 1))
np.save(f"{TMP}/stds.npy", np.array([3.2, 130, 9.1e4], "f4").reshape(1, C, 1, 1))
with open(f"{TMP}/probe.dl", "w") as model:
    model.write(MODEL)
for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
