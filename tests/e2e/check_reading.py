#!/usr/bin/env python3
"""What dlc estimate-scaling says that ranks ask of file systems, next to what the system counts of whole runs (strace).

check_reading.py BUILD     exit 77 without strace, numpy and h5py

Runs of one epoch without data workers, and without the point of the untrained model: all that such a run asks of the
data's folder is what is foretold for the start and an epoch. Where chunks are kept it is a bound.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from checks import ENV, TMP, check, finish

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "ranks"))
import mpi  # noqa: E402

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)
if not shutil.which("strace") or subprocess.run(["strace", "-f", "true"], capture_output=True).returncode:
    print("SKIP: no strace that may trace (scripts/install-packages test)")
    sys.exit(77)

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN, DLDATA = (f"{BUILD}/{p}" for p in ("cli/dlc", "cli/dlrun", "cli/dldata"))
DATA = os.path.realpath(f"{TMP}/data")
FIELDS = ("opens", "stats", "listings", "reads", "bytes")
CALLS = "openat,open,newfstatat,fstat,stat,lstat,statx,access,faccessat,faccessat2,read,pread64,preadv,readv"
CROPS = """model Probe(data_size=6):
    input x: f32[N, C=4, D=data_size, H=data_size, W=data_size]
    target t: f32[N, K=5, D, H, W]
    y = x |> conv(1, 1) @head
    output y
    loss = mean(y**2) + 0 * mean(t)
"""
FLAT = """model Probe(channels=3, height=8, width=12):
    input x: f32[N, C=channels, H=height, W=width]
    target t: f32[N, C=channels, H, W]
    y = x |> conv(channels, 1) @head
    output y
    loss = mean((y - t)**2)
"""
PICTURES = """model Probe(input_shape=[32, 32, 3], n_classes=10):
    input x: f32[N, C=input_shape[2], H=input_shape[0], W=input_shape[1]]
    target t: i32[N]
    y = x |> mean(over=[H, W]) |> linear(n_classes) @fc
    output y
    loss = cross_entropy(y, t)
"""
COMMON = ["--log_format=tracked", "--num_epochs=1", "--local_batch_size=2", "--num_data_workers=0", "--threads=1"]


def write(name, text):
    with open(f"{TMP}/{name}", "w") as f:
        f.write(text)


def foretold(model, *args, ranks="2"):
    done = subprocess.run([DLC, "estimate-scaling", f"{model}.dl", "--json", f"--ranks={ranks}", "--target=cuda:sm_80",
                           *COMMON, *args], cwd=TMP, env=ENV,
                          text=True, capture_output=True)
    check(done.returncode == 0, f"{args}: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def asked(traces):
    """What files of DATA were asked for, over all processes and threads."""
    found = dict.fromkeys(FIELDS, 0)
    for trace in traces:
        for line in open(trace, errors="replace"):
            call = re.match(r"(\w+)\((.*)\) += (-?\d+)", line)
            path = re.search(r"[<\"](" + re.escape(DATA) + r"[^>\"]*)", call[2]) if call else None
            if not path or re.search("O_WRONLY|O_RDWR|O_CREAT", call[2]) or ".statistics." in path[1]:
                continue
            name, got = call[1], int(call[3])
            if name in ("open", "openat"):
                found["listings" if "O_DIRECTORY" in call[2] else "opens"] += got >= 0
            elif "read" in name:
                found["reads"] += 1
                found["bytes"] += max(got, 0)
            # opendir looks whether it opened a folder
            elif not (re.match(r"\d+<", call[2]) and os.path.isdir(path[1])):
                found["stats"] += 1
    return found


def traced(name, model, *args, before=()):
    folder = f"{TMP}/trace_{name}"
    os.makedirs(folder)
    done = subprocess.run(["strace", "-ff", "-y", "-qq", "-e", f"trace={CALLS}", "-e", "signal=none", "-o",
                           f"{folder}/of", DLRUN, *before,
                           f"{model}.dl", f"--expdir=runs/{name}", *COMMON, *args], cwd=TMP,
                          env={**ENV, **mpi.environment(), **ENV}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True)
    check(done.returncode == 0, f"{name}: {done.stderr[-600:]}")
    found = asked(f"{folder}/{f}" for f in os.listdir(folder))
    shutil.rmtree(folder)
    return found


def both(told, of="rank", i=0):
    start, epoch = (told["data"]["scale"][i][of][k] for k in ("start", "epoch"))
    return {k: start[k] + epoch[k] for k in FIELDS}


def exact(name, model, *args, looks=0):
    told, found = foretold(model, *args), traced(name, model, *args)
    check({**both(told), "stats": both(told)["stats"] + looks} == found,
          f"{name}: foretold {both(told)}, asked {found}")
    check(found["opens"] > 0 and found["bytes"] > 0, f"{name}: {found}")
    one = told["data"]["scale"][0]["rank"]
    for c in (one["start"], one["epoch"], one["step"]):
        check(c["metadata"] == 2 * c["opens"] + c["stats"] + c["listings"], f"{name}: {c}")
    return told


def test_volumes():
    random = np.random.default_rng(3)
    packed = dict(chunks=(2, 7, 8, 9), compression="gzip", shuffle=True, fletcher32=True)
    for part in ("train", "val"):
        x, t = (random.normal(size=(c, 20, 20, 20)).astype("f4") for c in (4, 5))
        for name, options in (("plain", {}), ("packed", packed)):
            with h5py.File(f"{DATA}/{part}_{name}.h5", "w") as f:
                f.create_dataset("Nbody", data=x, **options), f.create_dataset("Hydro", data=t, **options)
        for name, data in (("data", x), ("label", t)):
            np.save(f"{DATA}/{part}_{name}.npy", np.moveaxis(data, 0, -1).astype(">f8" if part == "val" else "f4"))
    some = ["--Nsamples=12", "--Nsamples_val=4", "--data_size=6"]
    plain = [f"--train_path={DATA}/train_plain.h5", f"--val_path={DATA}/val_plain.h5", *some]
    told = exact("lowmem", "crops", *plain)
    # of each channel from the first of 6 planes to the last one's 6th row: gaps of less than 2 KiB are read along
    check(told["data"]["train"]["bytes_a_sample"] == 4 * 9 * (5 * 20 * 20 + 6 * 20)
          and told["data"]["train"]["error"] == 0, f"{told['data']['train']}")
    told = exact("inmem", "crops", "--data_loader_config=inmem", *plain)
    check(told["data"]["scale"][0]["rank"]["step"]["bytes"] == 0
          and told["data"]["scale"][0]["rank"]["start"]["bytes"] > 2 * 4 * 9 * 20**3,
          "the box is read at the start, and nothing afterwards")
    exact("box", "crops", "--data_loader_config=inmem", "--box_size=13", *plain)
    exact("inmem_packed", "crops", "--data_loader_config=inmem", f"--train_path={DATA}/train_packed.h5",
          f"--val_path={DATA}/val_packed.h5", *some)
    # which the cache holds
    exact("packed", "crops", f"--train_path={DATA}/train_packed.h5", f"--val_path={DATA}/val_packed.h5", *some)
    # dlrun looks for the four files once more, to warn where it has to read others
    exact("npy", "crops", "--data_loader_config=dali-lowmem", "--train_path=none.h5", "--val_path=none.h5", *some,
          *[f"--{p}_path_npy_{w}={DATA}/{p}_{w}.npy" for p in ("train", "val") for w in ("data", "label")], looks=4)
    # from a mapping no call reads: bytes are those that are copied
    told, found = foretold("crops", "--mmap=true", *plain), traced("mapped", "crops", "--mmap=true", *plain)
    start, epoch = (told["data"]["scale"][0]["rank"][k] for k in ("start", "epoch"))
    check(found["reads"] == start["reads"] and found["bytes"] == start["bytes"] and epoch["reads"] == 0
          and epoch["bytes"] >= 16 * 4 * 9 * 6**3,
          f"mapped: {found} {start} {epoch}")
    return plain


def test_weather():
    random = np.random.default_rng(4)
    for folder, years in (("train", (2001, 2002, 2003)), ("valid", (2004,))):
        os.makedirs(f"{DATA}/weather/{folder}")
        for year in years:
            with h5py.File(f"{DATA}/weather/{folder}/{year}.h5", "w") as f:
                f.create_dataset("fields", data=random.normal(size=(6, 3, 9, 13)).astype("f4"))
    np.save(f"{DATA}/weather/means.npy", np.zeros((1, 3, 1, 1), "f4")), np.save(f"{DATA}/weather/stds.npy",
                                                                                np.ones((1, 3, 1, 1), "f4"))
    args = ["--data_loader_config=pytorch", f"--train_data_path={DATA}/weather/train",
            f"--valid_data_path={DATA}/weather/valid",
            f"--global_means_path={DATA}/weather/means.npy", f"--global_stds_path={DATA}/weather/stds.npy", "--dt=1"]
    exact("weather", "flat", *args)
    return args


def test_pictures():
    subprocess.run([DLDATA, "images", "-q", "-o", f"{DATA}/cifar", "--train=50", "--valid=10"], check=True, env=ENV)
    subprocess.run([DLDATA, "images", "-q", "--jpeg", "-o", f"{DATA}/jpeg", "--train=40", "--valid=20", "--side=40"],
                   check=True, env=ENV)
    exact("cifar10", "pictures", "--data_loader_config=cifar10", f"--data_dir={DATA}/cifar")
    folders = ["--data_loader_config=image_folder", f"--train_dir={DATA}/jpeg/train", f"--valid_dir={DATA}/jpeg/val"]
    told = exact("jpeg", "pictures", *folders)
    check(told["data"]["train"]["error"] > 0 and told["data"]["train"]["looked"] == 40, "pictures are not all as large")
    names = sum(len(files) for _, _, files in os.walk(f"{DATA}/jpeg/train"))
    check(told["data"]["scale"][0]["rank"]["start"]["entries"] >= 2 * names, "every name is listed")
    return folders


def test_own():
    random = np.random.default_rng(5)
    x, t = (random.normal(size=(10, 3, 8, 12)).astype("f4") for _ in range(2))
    for i in range(3):
        np.save(f"{DATA}/x_{i}.npy", x + i), np.save(f"{DATA}/t_{i}.npy", t.astype("f8"))
    np.savez(f"{DATA}/stored.npz", x=x, t=t), np.savez_compressed(f"{DATA}/packed.npz", x=x, t=t)
    with h5py.File(f"{DATA}/own.h5", "w") as f:
        f.create_dataset("x", data=x), f.create_dataset("t", data=t, chunks=(1, 3, 4, 12), compression="gzip")
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    with h5py.File(f"{DATA}/compact.h5", "w") as f:
        f.create_dataset("t", data=t)
        space = h5py.h5s.create_simple((10, 3, 8, 12))
        h5py.h5d.create(f.id, b"x", h5py.h5t.IEEE_F32LE, space, compact).write(h5py.h5s.ALL, h5py.h5s.ALL, x)
    for name, array in (("x", x), ("t", t)):
        os.makedirs(f"{DATA}/z.zarr/{name}")
        meta = {"zarr_format": 2, "shape": [10, 3, 8, 12], "chunks": [2, 3, 8, 12], "dtype": "<f4", "compressor": None,
                "fill_value": 0, "order": "C",
                "filters": None}
        pathlib.Path(f"{DATA}/z.zarr/{name}/.zarray").write_text(json.dumps(meta))
        for i in range(5):
            pathlib.Path(f"{DATA}/z.zarr/{name}/{i}.0.0.0").write_bytes(array[2 * i:2 * i + 2].tobytes())
    pathlib.Path(f"{DATA}/z.zarr/.zgroup").write_text('{"zarr_format": 2}')

    def section(name, x, t, valid=0.2):
        write(f"{name}.yaml",
              "default:\n  data:\n" +
              f"    inputs: {{x: {{{x}}}}}\n    targets: {{t: {{{t}}}}}\n    split: {{valid: {valid}}}\n")
        return [f"--yaml_config={name}.yaml", "--config=default"]

    def arrays(name, file):
        return section(name, f"file: {DATA}/{file}, array: x", f"file: {DATA}/{file}, array: t")

    exact("own_npy", "flat", *section("npy", f"file: {DATA}/x_*.npy", f"file: {DATA}/t_*.npy"))
    for name, file in (("own_h5", "own.h5"), ("own_stored", "stored.npz"), ("own_packed", "packed.npz"),
                       ("own_zarr", "z.zarr")):
        exact(name, "flat", *arrays(name, file))
    exact("own_compact", "flat", *arrays("compact", "compact.h5"))
    # statistics: the first run reads all of the training part, the next one the file that it left
    scaled = section("scaled", f"file: {DATA}/own.h5, array: x, normalize: standardize",
                     f"file: {DATA}/own.h5, array: t, normalize: minmax")
    told, found = both(foretold("flat", *scaled)), traced("statistics", "flat", *scaled)
    chunked = sum(h5py.File(f"{DATA}/own.h5")["t"].id.get_chunk_info(i).size for i in range(20))
    # chunks that were unpacked for the statistics are there for the samples; looks of who writes the file are not
    # foretold
    check(told["opens"] == found["opens"] and told["bytes"] - chunked <= found["bytes"] <= told["bytes"],
          f"statistics: {told} {found} {chunked}")
    again = exact("statistics_again", "flat", *scaled)
    check(both(again)["bytes"] < told["bytes"], "and not again")
    # whether they still belong to the data: of Zarr by a look at every chunk's file
    scaled = section("zarr_scaled", f"file: {DATA}/z.zarr, array: x, normalize: standardize",
                     f"file: {DATA}/z.zarr, array: t")
    traced("zarr_statistics", "flat", *scaled)
    plain = both(foretold("flat", *arrays("plain_zarr", "z.zarr")))
    told = both(exact("zarr_statistics_again", "flat", *scaled))
    check(told["stats"] >= plain["stats"] + 2 * 11, f"{told} {plain}")


def test_bounds(plain, weather):
    # ranks: all of them together
    mpirun = mpi.find(BUILD, "openmpi")
    if mpirun:
        told = foretold("crops", *plain)
        found = traced("ranks", "crops", *plain, before=("-n", "2"))
        check(both(told, "all", 1) == found, f"2 ranks: foretold {both(told, 'all', 1)}, asked {found}")
    # workers read ahead: in vain only the three batches of an epoch that the run does not come to
    told, found = both(foretold("crops", *plain)), traced("workers", "crops", *plain, "--num_data_workers=2")
    more = 3 * 2 * 4 * 9 * (5 * 20 * 20 + 6 * 20)
    check(told["bytes"] <= found["bytes"] <= told["bytes"] + more and told["opens"] == found["opens"],
          f"workers: {told} {found} {more}")
    three = foretold("crops", *plain, ranks="3")["data"]["scale"][1]
    check(three["steps"] == 0 and three["all"]["epoch"] is None,
          f"4 samples to validate on are no batch of 3 ranks: {three}")
    # load at the predicted step
    told = foretold("flat", *weather, ranks="2,4")
    for at, timed in zip(told["data"]["scale"], told["scale"]):
        want = at["ranks"] * at["rank"]["step"]["bytes"] / timed["step_ms"] * 1e3
        check(abs(at["bytes_a_second"] - want) <= 1e-4 * want
              and at["all"]["step"]["bytes"] == at["ranks"] * at["rank"]["step"]["bytes"], f"{at}")
    vit = ["--config=base", "--img_size=[8,12]", "--n_in_channels=3", "--n_out_channels=3", "--embed_dim=32",
           "--depth=1", "--num_heads=4", "--patch_size=4"]
    split = foretold(os.path.abspath("models/vit"), *vit, *weather, "--tensor_parallel=2")["data"]["scale"]
    check(split[1]["rank"] == split[0]["rank"]
          and split[1]["all"]["step"]["bytes"] == 2 * split[0]["rank"]["step"]["bytes"],
          f"ranks that share samples read each of them: {split}")


def test_absent():
    told = foretold("crops", "--data_loader_config=synthetic")
    check(told["data"]["nothing"] is True and told["data"]["scale"][1]["all"]["start"]["metadata"] == 0,
          f"synthetic: {told['data']}")
    told = foretold("crops", f"--train_path={DATA}/\"absent\".h5")
    check(told["data"] is None and f'{DATA}/"absent".h5' in told["data_missing"] and len(told["scale"]) == 2,
          f"absent: {told}")
    for args, line in ((["--data_loader_config=synthetic"], "nothing is read"),
                       ([f"--train_path={DATA}/absent.h5"], "not looked at: no file"),
                       ([f"--train_path={DATA}/train_plain.h5", f"--val_path={DATA}/val_plain.h5", "--Nsamples=12",
                         "--Nsamples_val=4"], "epoch opens")):
        done = subprocess.run([DLC, "estimate-scaling", "crops.dl", "--ranks=2", "--target=cuda:sm_80", *args], cwd=TMP,
                              env=ENV, text=True, capture_output=True)
        check(done.returncode == 0 and line in done.stdout and "efficient" in done.stdout,
              f"{args}: {done.stdout} {done.stderr[-300:]}")


def test_wholes():
    """An array that is packed as a whole is kept, though larger than other caches; not where a file is a sample."""
    whole, one = np.zeros((40, 1, 400, 300), "f4"), np.zeros((1, 400, 300), "f4")
    np.savez_compressed(f"{DATA}/whole.npz", x=whole)
    for i in range(12):
        np.savez_compressed(f"{DATA}/one{i:02d}.npz", x=one)
    for files, axes, held in (("whole.npz", "N,C,H,W", whole.nbytes), ("one*.npz", "C,H,W", 0)):
        done = subprocess.run([f"{BUILD}/tests/loader_run", "arrays", f"{DATA}/{files}", "x", axes, "C=1,H=400,W=300",
                               "1", "0.1"], capture_output=True, text=True)
        check(done.returncode == 0 and json.loads(done.stdout)["held"] == held, f"{files}: {done.stdout}{done.stderr}")


def main():
    os.makedirs(DATA)
    test_wholes()
    for name, text in (("crops", CROPS), ("flat", FLAT), ("pictures", PICTURES)):
        write(f"{name}.dl", text)
    plain = test_volumes()
    weather = test_weather()
    test_pictures()
    test_own()
    test_bounds(plain, weather)
    test_absent()


main()
finish()
