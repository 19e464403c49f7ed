"""Samples that a device makes of the files' numbers (data_loader_config dali, dali-lowmem): the same bits as those that
the host makes.

check_gather.py DLRUN     Python's own library and a C++ compiler (77: there is none)

Whole runs on the emulated device: weights to the bit, points digit by digit, and what was asked of the driver.
"""
import array
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import zipfile

from checks import ENV, TMP, check, finish

DLRUN = os.path.abspath(sys.argv[1])
EDGE, SIZE = 9, 6
CROPS = """model Probe(data_size=6):
    input x: f32[N, C=4, D=data_size, H=data_size, W=data_size]
    target t: f32[N, C=5, D, H, W]
    y = x |> conv(5, 3, pad=1) @head
    output y
    loss = mean((y - t)**2)
    metric first = mean(x[C=0] * linspace(1, 2, over=H))
    metric last = mean(x[C=3] * linspace(0, 3, over=W))
    metric target = mean(t[C=4] * linspace(1, 4, over=D))
"""
WEATHER = """model Probe(img_size=[4, 6], n_in_channels=3, n_out_channels=3):
    input x: f32[N, C=n_in_channels, H=img_size[0], W=img_size[1]]
    target t: f32[N, C=n_out_channels, H, W]
    y = x |> conv(n_out_channels, 3, pad=1) @head
    output y
    loss = mean((y - t)**2)
    metric first = mean(x[C=0] * linspace(1, 2, over=H))
    metric target = mean(t[C=2] * linspace(0, 3, over=W))
"""
OWN = """model Probe():
    input x: f32[N, C=2, H=4, W=6]
    input mask: f32[N, H=4, W=6]
    target label: i64[N]
    y = (mean(x |> conv(4, 3, pad=1) @c, over=[H, W]) |> linear(3) @head)
    output y
    loss = cross_entropy(y, label) + mean(mask) * 0
    metric first = mean(x[C=0] * linspace(1, 2, over=H))
    metric last = mean(x[C=1] * linspace(0, 3, over=W))
    metric mask = mean(mask * linspace(0, 3, over=W))
"""
SECTION = """default:
  data:
    inputs:
      x: {file: pictures.npy, axes: [N, H, W, C], channels: [2, 0], mean: [100, 120], std: [50, 60]}
      mask: {file: mask.npy, axes: [H, W], nan: 0.5}
    targets: {label: labels.npy}
    split: {valid: 0.3}
    augment: {flip: H, shift: W}
"""


def npy(shape, numbers, code="<f4"):
    """A .npy file's bytes."""
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (code, tuple(shape))).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    a = array.array({"f4": "f", "f8": "d", "u1": "B", "i2": "h"}[code[1:]], numbers)
    if (code[0] == ">") == (sys.byteorder == "little"):
        a.byteswap()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + a.tobytes()


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def write_archive(path, arrays):
    """An .npz, whatever it is called: files are known by what they hold."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with zipfile.ZipFile(path, "w") as z:
        for name, data in arrays.items():
            z.writestr(name + ".npy", data)


def draw(n, rng):
    """Numbers that f32 holds, so that f64 says the same."""
    return array.array("f", [rng.gauss(0, 1) for _ in range(n)])


def write_crops(rng):
    voxels = EDGE**3
    for part in ("train", "val"):
        arrays = {}
        for name, role, channels in (("Nbody", "data", 4), ("Hydro", "label", 5)):
            first = draw(channels * voxels, rng)
            last = [first[c * voxels + v] for v in range(voxels) for c in range(channels)]
            arrays[name] = npy([channels, EDGE, EDGE, EDGE], first)
            write(f"{TMP}/{part}_{role}.npy",
                  npy([EDGE, EDGE, EDGE, channels], last, ">f8" if part == "val" else "<f4"))
        write_archive(f"{TMP}/{part}.npz", arrays)


def write_weather(rng):
    for folder, years in (("years", 2), ("valid", 1), ("spoilt", 1)):
        for year in range(years):
            fields = draw(12 * 3 * 5 * 7, rng)
            if folder == "spoilt":
                fields[4 * 3 * 5 * 7 + 40] = float("inf")
            write_archive(f"{TMP}/{folder}/{1990 + year}.h5", {"fields": npy([12, 3, 5, 7], fields)})
    write(f"{TMP}/means.npy", npy([1, 3, 1, 1], [0.1, -0.3, 0.7]))
    write(f"{TMP}/stds.npy", npy([1, 3, 1, 1], [1.1, 0.3, 3.7]))


def train(name, model, loader, *more, code=0):
    r = subprocess.run([DLRUN, model, f"--run_num={name}", "--expdir=runs", "--num_epochs=2", "--local_batch_size=3",
                        "--global_batch_size=3", "--seed=5",
                        "--num_data_workers=2", "--start_lr=0.01", f"--data_loader_config={loader}",
                        f"--save_weights={name}.safetensors",
                        "--device=cuda:emulated", *more], cwd=TMP, env={**ENV, "DLR_DEBUG": "driver"}, text=True,
                       stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(r.returncode == code, f"{name}: exit {r.returncode} {r.stderr[-600:]}")
    found = [os.path.join(d, "metrics.jsonl")
             for d, _, files in os.walk(f"{TMP}/runs") if d.endswith(f"/{name}") and "metrics.jsonl" in files]
    points = []
    for line in open(found[0]) if found else []:
        points.append({k: v
                       for k, v in json.loads(line).items()
                       if not re.search("(?i)time|samples|iters|memory|sec|wait", k)})
    path = f"{TMP}/{name}.safetensors"
    return points, open(path, "rb").read() if os.path.exists(path) else None, r.stderr + r.stdout


def same(name, ours, theirs):
    check(len(ours[0]) > 1 and any("valid" in k for p in ours[0] for k in p), f"{name}: points to compare: {ours[0]}")
    check(ours[0] == theirs[0], f"{name}: {ours[0]} {theirs[0]}")
    check(ours[1] and ours[1] == theirs[1], f"{name}: weights")


def test_crops():
    model = f"{TMP}/crops.dl"
    with open(model, "w") as f:
        f.write(CROPS)
    options = [f"--data_size={SIZE}", "--Nsamples=30", "--Nsamples_val=9", f"--train_path={TMP}/train.npz",
               f"--val_path={TMP}/val.npz"]
    files = [f"--{part}_path_npy_{role}={TMP}/{part}_{role}.npy" for part in ("train", "val")
             for role in ("data", "label")]
    host = train("host", model, "lowmem", *options)
    check("the device makes samples" not in host[2], "lowmem leaves samples to the host")
    first, last = train("first", model, "dali-lowmem", *options), train("last", model, "dali-lowmem", *options, *files)
    same("crops, channels first", first, host)
    same("crops, channels last", last, host)
    for name, run in (("first", first), ("last", last)):
        check("the device makes samples of the files' numbers" in run[2], f"{name}: {run[2][-900:]}")
        check("driver: graph launches a step 1, synchronisations a step 0, allocations a step 0" in run[2],
              f"{name}: {run[2][-400:]}")
    half = train("half", model, "dali-lowmem", *options, "--amp_mode=bf16")
    same("crops in bf16", half, train("half_host", model, "lowmem", *options, "--amp_mode=bf16"))
    cpu = train("cpu", model, "dali-lowmem", *options, "--device=cpu")
    check("the device makes samples" not in cpu[2] and "the host makes the samples" not in cpu[2],
          "a CPU has no other way, and says nothing")


def test_weather():
    model = f"{TMP}/weather.dl"
    with open(model, "w") as f:
        f.write(WEATHER)
    options = [f"--valid_data_path={TMP}/valid", f"--global_means_path={TMP}/means.npy",
               f"--global_stds_path={TMP}/stds.npy", "--dt=2"]
    host = train("fields_host", model, "pytorch", f"--train_data_path={TMP}/years", *options)
    device = train("fields", model, "dali", f"--train_data_path={TMP}/years", *options)
    same("weather", device, host)
    check("the device makes samples of the files' numbers" in device[2], device[2][-900:])
    check("the device holds the data set, 0.0 MiB of" in device[2], device[2][-900:])
    said = []
    for name, loader in (("spoilt_host", "pytorch"), ("spoilt", "dali")):
        r = train(name, model, loader, f"--train_data_path={TMP}/spoilt", *options, code=3)
        said.append(re.findall(r"error: (.*is inf: data must be finite)", r[2]))
        check(loader == "pytorch" or re.search("read batch by batch: .*is inf", r[2]), r[2][-900:])
    check(said[0] and said[0] == said[1], f"what is not finite is refused: {said}")


def test_own(rng):
    """Data of one's own: the same loader's, by whose name the device is to make them."""
    model, samples = f"{TMP}/own.dl", 20
    for path, text in ((model, OWN), (f"{TMP}/own.yaml", SECTION)):
        with open(path, "w") as f:
            f.write(text)
    write(f"{TMP}/pictures.npy", npy([samples, 4, 6, 3], [rng.randrange(256) for _ in range(samples * 72)], "|u1"))
    write(f"{TMP}/mask.npy", npy([4, 6], [rng.choice([0, 1, float("nan")]) for _ in range(24)]))
    write(f"{TMP}/labels.npy", npy([samples], [rng.randrange(3) for _ in range(samples)], ">i2"))
    host = train("own_host", model, "own", "--yaml_config=own.yaml")
    check("the device makes samples" not in host[2], "own leaves samples to the host")
    for loader in ("dali", "dali-lowmem"):
        device = train("own_" + loader, model, loader, "--yaml_config=own.yaml")
        same(f"data of one's own, {loader}", device, host)
        check("the device makes samples of the files' numbers" in device[2] and "npy files" not in device[2],
              device[2][-900:])
        check(("the device holds the data set" in device[2]) == (loader == "dali"), device[2][-900:])
        check("driver: graph launches a step 1, synchronisations a step 0, allocations a step 0" in device[2],
              device[2][-400:])
    same("data of one's own, bf16", train("own_half", model, "dali", "--yaml_config=own.yaml", "--amp_mode=bf16"),
         train("own_half_host", model, "own", "--yaml_config=own.yaml", "--amp_mode=bf16"))


if not any(map(shutil.which, ("c++", "g++", "clang++"))):
    print("SKIP: no C++ compiler")
    sys.exit(77)
os.makedirs(TMP, exist_ok=True)
generator = random.Random(3)
write_crops(generator)
write_weather(generator)
test_crops()
test_weather()
test_own(generator)
finish()
