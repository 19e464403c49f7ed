#!/usr/bin/env python3
"""System E's pictures in whole runs: both layouts as `dldata images` writes them, on any number of workers, stopped and
resumed.

check_pictures.py BUILD     from the project's root; needs nothing but Python's own library, and a C++ compiler for what
                            an emulated GPU makes

The model's metrics are means of what it was fed, so that a run's points say which pictures came, and how scaled and
moved.
"""
import array
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from checks import ENV, TMP, check, finish

BUILD = os.path.abspath(sys.argv[1])
DLRUN, DLDATA, DUMP = BUILD + "/cli/dlrun", BUILD + "/cli/dldata", BUILD + "/tests/dump_samples"
PLANE, RECORD, BATCH = 1024, 3073, 8
MODEL = """model Probe(input_shape=[32, 32, 3], n_classes=10):
    input x: f32[N, C=input_shape[2], H=input_shape[0], W=input_shape[1]]
    target t: i32[N]
    y = x |> conv(4, 3, pad=same, stride=2) @conv |> relu |> mean(over=[H, W]) |> linear(n_classes) @fc
    output y
    loss = cross_entropy(y, t)
    metric accuracy = mean(argmax(y, over=C) == t)
    metric first = mean(x[C=0] * linspace(1, 2, over=H))
    metric last = mean(x[C=2] * linspace(0, 3, over=W))
    metric third = mean(t == 3)
"""


MEANS = """model Means(input_shape=[32, 32, 3], n_classes=10):
    input x: f32[N, C=input_shape[2], H=input_shape[0], W=input_shape[1]]
    target t: i32[N]
    c = mean(x, over=[H, W])
    output c
    y = c |> linear(n_classes) @fc
    loss = cross_entropy(y, t)
    metric c0 = mean(x[C=0])
    metric c1 = mean(x[C=1])
    metric c2 = mean(x[C=2])
"""


def run(*args, **environment):
    return subprocess.run(args, capture_output=True, text=True, env={**ENV, **environment}, stdin=subprocess.DEVNULL)


def train(name, *args):
    out = f"{TMP}/{name}"
    r = run(DLRUN, f"{TMP}/probe.dl", "--preset=keras", f"--batch_size={BATCH}", "--n_epochs=2", f"--output_dir={out}",
            f"--save_weights={TMP}/{name}.safetensors", *args)
    check(r.returncode == 0, f"{name}: exit {r.returncode}: {r.stderr[-500:]}")
    with open(f"{out}/metrics.jsonl") as f:
        return [json.loads(line) for line in f]


def weights(name):
    with open(f"{TMP}/{name}.safetensors", "rb") as f:
        return f.read()


def refused(code, pattern, *args):
    r = run(DLRUN, f"{TMP}/probe.dl", "--preset=keras", f"--batch_size={BATCH}", f"--output_dir={TMP}/no", *args)
    check(r.returncode == code and re.search(pattern, r.stderr),
          f"exit {r.returncode}, wanted {code} and /{pattern}/: {r.stderr[-500:]}")


def reference(path, n):
    """Means of the first n records, as the model's metrics."""
    with open(path, "rb") as f:
        data = f.read()
    rows = [1 + i / 31 for i in range(32)]
    first = last = third = 0.0
    for k in range(n):
        at = k * RECORD
        third += data[at] == 3
        red, blue = data[at + 1:at + 1 + PLANE], data[at + 1 + 2 * PLANE:at + RECORD]
        first += sum(v * rows[i // 32] for i, v in enumerate(red)) / 255 / PLANE
        last += sum(v * (rows[i % 32] - 1) * 3 for i, v in enumerate(blue)) / 255 / PLANE
    return {"first": first / n, "last": last / n, "third": third / n}


def near(point, split, want, bound, what):
    for k, v in want.items():
        check(abs(point[f"{k}/{split}"] - v) < bound * (abs(v) + 0.1),
              f"{what}: {k}/{split} is {point[f'{k}/{split}']}, not {v}")


def same_bits(name, *data):
    """Any number of workers, and a run cut after an epoch, train to the same weights."""
    train(name, *data, "--num_data_workers=0")
    for workers in 1, 3:
        train(f"{name}{workers}", *data, f"--num_data_workers={workers}")
        check(weights(name) == weights(f"{name}{workers}"), f"{name}: {workers} workers")
    train(f"{name}cut", *data, "--n_epochs=1")
    train(f"{name}cut", *data, "--resume")
    check(weights(name) == weights(f"{name}cut"), f"{name}: cut and resumed")


def test_cifar():
    made = run(DLDATA, "images", "-o", f"{TMP}/cifar", "--train=80", "--valid=20", "-q")
    check(made.returncode == 0, made.stderr)
    folder = f"--data_dir={TMP}/cifar"
    all_of_them = b"".join(open(f"{TMP}/cifar/data_batch_{k}.bin", "rb").read() for k in range(1, 6))
    with open(f"{TMP}/train.bin", "wb") as f:
        f.write(all_of_them)
    points = train("plain", folder)  # a folder alone: bytes / 255, nothing moved
    valid = reference(f"{TMP}/cifar/test_batch.bin", 20)  # the last batch has four of eight
    near(points[-1], "valid", valid, 1e-5, "validation is the first pictures in order")
    near(points[-1], "train", reference(f"{TMP}/train.bin", 80), 1e-5, "an epoch is all pictures")
    r = run(DLRUN, "models/cnn_classifier.dl", "--config=default", folder, f"--expdir={TMP}/line",
            "--local_batch_size=8", "--num_epochs=1")
    check(r.returncode == 0 and "data_loader_config cifar10" in r.stderr,
          f"data on the line beats a file's synthetic: {r.stderr[-500:]}")
    points = train("few", folder, "--n_train=24", "--n_valid=8")
    near(points[-1], "train", reference(f"{TMP}/train.bin", 24), 1e-5, "n_train")
    near(points[-1], "valid", reference(f"{TMP}/cifar/test_batch.bin", 8), 1e-5, "n_valid")
    points = train("moved", folder, "--data=cifar10")
    near(points[-1], "valid", valid, 1e-5, "validation is not moved")
    check(abs(points[-1]["first/train"] - reference(f"{TMP}/train.bin", 80)["first"]) > 1e-5, "training is")
    same_bits("cifar", folder, "--data=cifar10", "--shift_range=0.2", "--zoom_range=0.3")
    shutil.copytree(f"{TMP}/cifar", f"{TMP}/cut")
    with open(f"{TMP}/cut/data_batch_3.bin", "ab") as f:
        f.write(b"x")
    refused(3, r"data_batch_3\.bin is 49169 bytes: records of CIFAR-10 are 3073", f"--data_dir={TMP}/cut")
    refused(2, r"data_dir is not set", "--data=cifar10")
    refused(3, r"input_shape", folder, "--input_shape=[64,64,3]")
    refused(2, r"n_train=5: .*training has 5 samples, which fill no batch of 8", folder, "--n_train=5")


def test_folders():
    made = run(DLDATA, "images", "-o", f"{TMP}/jpeg", "--jpeg", "--train=40", "--valid=16", "--side=48", "-q")
    check(made.returncode == 0, made.stderr)
    small = ["--input_shape=[40,24,3]", f"--n_classes={len(os.listdir(f'{TMP}/jpeg/train'))}"]
    data = [f"--train_dir={TMP}/jpeg/train", f"--valid_dir={TMP}/jpeg/val", *small]
    twice = [f"--train_dir={TMP}/jpeg/train", f"--valid_dir={TMP}/jpeg/train", *small]
    point = train("both", *twice)[-1]  # nothing moved: training and validation are the same pictures
    near(point, "train", {k: point[f"{k}/valid"] for k in ("first", "last", "third")}, 1e-5, "one folder for both")
    check(0 < point["first/valid"] < 1.5 and 0 < point["last/valid"] < 1.5, f"values are 0 to 1: {point}")
    # Planes in the other order less the means, which linspace weighs by 1.5: blue first, red last.
    caffe = train("caffe", *twice, "--image_scaling=caffe")[-1]
    swapped = f"{TMP}/swapped.dl"
    with open(f"{TMP}/probe.dl") as f, open(swapped, "w") as g:
        g.write(f.read().replace("x[C=0]", "x[C=2]").replace("x[C=2] * linspace(0", "x[C=0] * linspace(0"))
    r = run(DLRUN, swapped, "--preset=keras", f"--batch_size={BATCH}", "--n_epochs=1", f"--output_dir={TMP}/swapped",
            *twice)
    check(r.returncode == 0, r.stderr[-500:])
    with open(f"{TMP}/swapped/metrics.jsonl") as f:
        other = json.loads(f.readlines()[-1])
    near(caffe, "valid",
         {"first": other["first/valid"] * 255 - 1.5 * 103.939, "last": other["last/valid"] * 255 - 1.5 * 123.68}, 1e-4,
         "caffe")
    moved = train("imagenet", *twice, "--data=imagenet")[-1]
    near(moved, "valid", {k: caffe[f"{k}/valid"] for k in ("first", "last", "third")}, 1e-5,
         "imagenet's validation is not moved")
    check(abs(moved["first/train"] - caffe["first/train"]) > 1e-3, "its training is")
    same_bits("folders", *data, "--data=imagenet")
    refused(3, r"class folders .* and the model tells 99 classes apart", *data[:3], "--n_classes=99")
    refused(2, r"valid_dir is not set", data[0], *small)
    worst = sorted(os.listdir(f"{TMP}/jpeg/train"))[1]
    with open(f"{TMP}/jpeg/train/{worst}/zz.jpg", "wb") as f:
        f.write(b"\xff\xd8\xff\xe0 and no more")
    refused(3, worst + r"/zz\.jpg: not a JPEG file that can be read", *data)
    r = run(DLRUN, f"{TMP}/probe.dl", "--preset=keras", f"--batch_size={BATCH}", "--n_epochs=3",
            f"--output_dir={TMP}/skip", *data, "--skip_unreadable")
    check(r.returncode == 0
          and len(re.findall(rf"WARNING skipped: \S*{worst}/zz\.jpg: not a JPEG file", r.stderr)) == 1,
          f"skipped, told once: {r.stderr[-500:]}")
    os.remove(f"{TMP}/jpeg/train/{worst}/zz.jpg")
    part = train("part", *twice, "--crop_scale=0.2")[-1]
    near(part, "valid", {k: point[f"{k}/valid"] for k in ("first", "last", "third")}, 1e-5,
         "validation shows all of a picture")
    check(abs(part["first/train"] - point["first/train"]) > 1e-4
          and abs(part["third/train"] - point["third/train"]) < 1e-6, "training parts of the same ones")
    same_bits("parts", *data, "--crop_scale=0.2", "--horizontal_flip")
    refused(2, r"crop_scale is for folders", f"--data_dir={TMP}/cifar", "--crop_scale=0.5")


def read_npy(path):
    """Rows of the floats of a .npy file of two axes."""
    with open(path, "rb") as f:
        data = f.read()
    shape = [int(n) for n in re.search(rb"'shape': \(([^)]*)\)", data)[1].split(b",") if n.strip()]
    numbers = array.array("f", data[len(data) - 4 * shape[0] * shape[1]:])
    return [list(numbers[i * shape[1]:(i + 1) * shape[1]]) for i in range(shape[0])]


def predict(name, *data):
    r = run(DLRUN, "predict", f"{TMP}/{name}", *data, f"-o{TMP}/{name}.npy")
    return read_npy(f"{TMP}/{name}.npy") if check(r.returncode == 0, f"{name} {data}: {r.stderr[-500:]}") else []


def train_means(name, *args):
    """The channels' means over the validation set."""
    with open(f"{TMP}/means.dl", "w") as f:
        f.write(MEANS)
    r = run(DLRUN, f"{TMP}/means.dl", "--preset=keras", f"--batch_size={BATCH}", "--n_epochs=1",
            f"--output_dir={TMP}/{name}", *args)
    check(r.returncode == 0, f"{name}: {r.stderr[-500:]}")
    with open(f"{TMP}/{name}/metrics.jsonl") as f:
        point = json.loads(f.readlines()[-1])
    return [point[f"c{c}/valid"] for c in range(3)]


def same_rows(rows, want, bound, what):
    check(len(rows) == len(want) and all(abs(a - b) <= bound for r, w in zip(rows, want) for a, b in zip(r, w)),
          f"{what}: {rows[:2]}, not {want[:2]}")


def test_predictions(cifar, folders):
    """A run on pictures predicts pictures, as it was validated on them: next to the file's bytes, and to validation."""
    train_means("of_bytes", *cifar)
    with open(f"{TMP}/cifar/test_batch.bin", "rb") as f:
        data = f.read()
    means = [[sum(data[k + 1 + c * PLANE:k + 1 + (c + 1) * PLANE]) / PLANE for c in range(3)]
             for k in range(0, len(data), RECORD)]
    rows = predict("of_bytes", f"{TMP}/cifar/test_batch.bin")
    same_rows(rows, [[v / 255 for v in m] for m in means], 1e-6, "records")
    same_rows(predict("of_bytes", f"{TMP}/cifar/test_batch.bin", "--samples=3:5"), rows[3:5], 0, "a part")
    caffe = [103.939, 116.779, 123.68]
    train_means("of_caffe", *cifar, "--image_scaling=caffe", "--data_loader_config=dali")
    same_rows(predict("of_caffe", f"{TMP}/cifar/test_batch.bin"),
              [[m[2 - c] - caffe[c] for c in range(3)] for m in means], 1e-4, "caffe")
    valid = train_means("of_files", *folders)
    names = sorted(str(p) for p in pathlib.Path(TMP, "jpeg/val").glob("*/*.jpg"))
    rows = predict("of_files", f"{TMP}/jpeg/val")
    same_rows([[sum(r[c] for r in rows) / len(rows) for c in range(3)]], [valid], 1e-5, "validation's mean")
    same_rows(predict("of_files", *names), rows, 0, "file by file, in the order of names")
    same_rows(predict("of_files", names[3]), rows[3:4], 0, "one file")
    for code, pattern, *words in ((3, "of_files.npy: not a JPEG file", "of_files", f"{TMP}/of_files.npy"),
                                  (3, "has a file .jpg", "of_files", f"{TMP}/cifar"),
                                  (3, "32 x 32, and the model takes 40 x 24", "of_files",
                                   f"{TMP}/cifar/test_batch.bin"),
                                  (4, "no/where", "of_files", f"{TMP}/no/where"),
                                  (3, "only JPEG pictures are read", "of_files", f"{TMP}/png")):
        os.makedirs(f"{TMP}/png", exist_ok=True)
        open(f"{TMP}/png/a.png", "w").close()
        r = run(DLRUN, "predict", f"{TMP}/{words[0]}", words[1], f"-o{TMP}/no.npy")
        check(r.returncode == code and pattern in r.stderr and not os.path.exists(f"{TMP}/no.npy"),
              f"{words}: {r.returncode} {r.stderr[-500:]}")


def test_metrics():
    """`dlrun test`, and predictions with --metrics: classes are of the records, or by the folders' names; the numbers
    are validation's."""
    for name, data, alone in (("plain", f"{TMP}/cifar/test_batch.bin", f"{TMP}/cifar/test_batch.bin"),
                              ("both", f"{TMP}/jpeg/train", f"{TMP}/jpeg/train")):
        with open(f"{TMP}/{name}/metrics.jsonl") as f:
            point = json.loads(f.readlines()[-1])
        checkpoint = f"{TMP}/{name}/checkpoints/last"
        r = run(DLRUN, "test", checkpoint, data, "--json")
        said = json.loads(r.stdout or "{}")
        check(r.returncode == 0 and said["samples"] == {"plain": 20, "both": 40}[name]
              and abs(said["loss"] - point["loss/valid" if "loss/valid" in point else "Loss/valid"]) < 1e-5,
              f"{name}: {r.returncode} {r.stderr[-300:]} {said} {point}")
        near({f"{k}/valid": v for k, v in said.get("metrics", {}).items()}, "valid",
             {k: point[f"{k}/valid"] for k in ("accuracy", "first", "last", "third")}, 1e-5, f"{name}: dlrun test")
        r = run(DLRUN, "predict", checkpoint, alone, f"-o{TMP}/{name}.npy", "--metrics")
        third = re.search(r"third +([\d.]+)", r.stdout)
        check(r.returncode == 0 and third and abs(float(third[1]) - said["metrics"]["third"]) < 1e-5,
              f"{name}: predictions with metrics: {r.returncode} {r.stdout} {r.stderr[-300:]}")
    # one class alone, whose number stays; a folder that is no class
    third = sorted(os.listdir(f"{TMP}/jpeg/train"))[3]
    r = run(DLRUN, "test", f"{TMP}/both/checkpoints/last", f"{TMP}/jpeg/val/{third}", "--json")
    check(r.returncode == 0 and json.loads(r.stdout)["metrics"]["third"] == 1, f"one class: {r.stdout} {r.stderr}")
    shutil.copytree(f"{TMP}/jpeg/val/{third}", f"{TMP}/strangers/other")
    r = run(DLRUN, "test", f"{TMP}/both/checkpoints/last", f"{TMP}/strangers")
    fault = r"other/\S+ lies in no folder of one of the run's \d+ classes, dotted_disc to"
    check(r.returncode == 3 and re.search(fault, r.stderr), f"no class: {r.returncode} {r.stderr}")


def dump(split, epoch, *args, **environment):
    """All samples, bit by bit."""
    r = subprocess.run([DUMP, split, str(epoch), f"{TMP}/probe.dl", "--local_batch_size=4", *args], capture_output=True,
                       env={**ENV, **environment})
    check(r.returncode == 0, f"{args}: exit {r.returncode} {r.stderr[-500:]}")
    return r.stdout


def test_device_samples(cifar, folders):
    """What a device makes of bytes, or of what resizing made, is what the host makes, whether it holds them or gets
    them batch by batch."""
    shown = ["--shift_range=0.3", "--zoom_range=0.4", "--horizontal_flip"]
    device = {"DUMP_DEVICE": "cuda:sm_90a:emulated"}
    for data in (cifar, folders):
        for moves in (), ("--horizontal_flip",), ("--image_scaling=caffe",
                                                  *shown), ("--shift_range=0.1",), ("--image_scaling=caffe",
                                                                                    "--zoom_range=0.9"):
            for split, epoch in ("train", 0), ("train", 3), ("valid", 3):
                want = dump(split, epoch, *data, *moves)
                for loader, more in ("dali", {"DUMP_HELD": "1"}), ("dali-lowmem", {}):
                    got = dump(split, epoch, *data, *moves, f"--data_loader_config={loader}", **device, **more)
                    check(len(want) > 10000 and got == want, f"samples by the device, {loader}: {split} {data} {moves}")
    parts = [*folders, "--crop_scale=0.2", *shown]
    check(dump("train", 2, *parts, "--data_loader_config=dali-lowmem", **device) == dump("train", 2, *parts),
          "parts of pictures by the device")


def train_on_device(name, loader, *args):
    r = run(DLRUN, f"{TMP}/probe.dl", "--preset=keras", f"--batch_size={BATCH}", "--n_epochs=2",
            f"--output_dir={TMP}/{name}", "--device=cuda:emulated",
            f"--save_weights={TMP}/{name}.safetensors", f"--data_loader_config={loader}", *args, DLR_DEBUG="driver")
    check(r.returncode == 0, f"{name}: exit {r.returncode}: {r.stderr[-500:]}")
    return r.stderr


def test_device_runs(cifar, folders):
    """Whole runs: weights to the bit, and who did what."""
    both = "the device makes samples of the files' numbers; the host "
    for name, own, does, data in (("e_cifar", "cifar10", "reads them", cifar),
                                  ("e_folders", "image_folder", "decodes, cuts out and resizes them", folders)):
        for mode in ((), ("--amp_mode=bf16",)):
            said = train_on_device(name, own, *data, *mode)
            check(both not in said, f"{own} leaves samples to the host: {said[-500:]}")
            for loader in "dali", "dali-lowmem":
                said = train_on_device(f"{name}_{loader}", loader, *data, *mode)
                check(weights(f"{name}_{loader}") == weights(name), f"{name}, {loader} {mode}: weights")
                check(both + does in said and ("the device holds the data set" in said) == (loader == "dali"),
                      said[-900:])
                check("driver: graph launches a step 1, synchronisations a step 0, allocations a step 0" in said,
                      said[-400:])
    said = train_on_device("e_parts", "image_folder", *folders, "--crop_scale=0.3")
    said = train_on_device("e_parts_dali", "dali", *folders, "--crop_scale=0.3")
    check(weights("e_parts") == weights("e_parts_dali"), "parts of pictures are other ones each epoch")
    check(both in said and "the data set is read batch by batch: " in said, said[-900:])


def test_device():
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        print("no C++ compiler: nothing is emulated")
        return
    folders = [f"--train_dir={TMP}/jpeg/train", f"--valid_dir={TMP}/jpeg/val", "--input_shape=[40,24,3]"]
    test_device_samples([f"--data_dir={TMP}/cifar"], folders)
    test_device_runs([f"--data_dir={TMP}/cifar", "--data=cifar10"], [*folders, "--data=imagenet"])
    r = run(DLRUN, f"{TMP}/probe.dl", "--data=cifar10", "--data_loader_config=dali", f"--expdir={TMP}/no")
    check(r.returncode == 2 and "data_dir is not set" in r.stderr,
          f"a set by name is asked for by its key: {r.stderr[-500:]}")


with open(f"{TMP}/probe.dl", "w") as model:
    model.write(MODEL)
test_cifar()
test_folders()
test_predictions([f"--data_dir={TMP}/cifar"],
                 [f"--train_dir={TMP}/jpeg/train", f"--valid_dir={TMP}/jpeg/val", "--input_shape=[40,24,3]",
                  f"--n_classes={len(os.listdir(f'{TMP}/jpeg/train'))}"])
test_metrics()
test_device()
finish()
