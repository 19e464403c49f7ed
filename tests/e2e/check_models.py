"""The models of models/ from the command line: keys, configurations, schedules, synthetic data, weights at the end.

check_models.py BUILD     from the project's root; needs nothing but Python's own library
"""
import json
import math
import os
import re
import struct
import subprocess
import sys

from checks import ENV, TMP, check, finish, run_points, save_file

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN = f"{BUILD}/cli/dlc", f"{BUILD}/cli/dlrun"

VIT = ["models/vit.dl", "--config=base", "--data_loader_config=synthetic", "--img_size=[8,12]", "--n_in_channels=3",
       "--n_out_channels=3",
       "--patch_size=4", "--embed_dim=8", "--depth=1", "--num_heads=2", "--global_batch_size=4"]
REGRESSOR = ["models/cnn_regressor.dl", "--config=test", "--hidden=4", "--depth=3", "--data_size=8", "--batch_size=4",
             "--Nsamples=16",
             "--Nsamples_val=4"]
RESNET = ["models/resnet.dl", "--small=true", "--widths=[4,4,4,4]", "--depths=[1,1,1,1]", "--strides=[2,2,2,2]",
          "--expand=1", "--n_classes=5",
          "--input_shape=[16,16,3]", "--local_batch_size=4"]


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, env=ENV, stdin=subprocess.DEVNULL)


def train(name, *args):
    """A run that must succeed: its points, by tag."""
    r = run(DLRUN, *args, f"--expdir={TMP}/{name}")
    check(r.returncode == 0, f"{name} {args}: exit {r.returncode}: {r.stderr[-600:]}")
    return run_points(f"{TMP}/{name}"), r.stderr


def refused(code, pattern, *args):
    r = run(*args)
    check(r.returncode == code and re.search(pattern, r.stderr),
          f"{args[1:]}: exit {r.returncode}, wanted {code} and /{pattern}/: {r.stderr[-500:]}")


def tensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    header.pop("__metadata__", None)
    return {k: v["shape"] for k, v in header.items()}


def write(name, text):
    path = f"{TMP}/{name}"
    with open(path, "w") as f:
        f.write(text)
    return path


def rates(points):
    """Of system A's points or of C's."""
    return [p[tag] for p in points for tag in ("Learning Rate", "learning_rate") if tag in p]


def test_keys():
    """Types and defaults are the model's; what it does not declare is an error with the nearest name."""
    r = run(DLC, "--help", "models/vit.dl")
    check(r.returncode == 0 and re.search(r"img_size +list of int +\[360, 720\]\n", r.stdout)
          and re.search(r"dropout +float +0\.0\n", r.stdout), r.stdout)
    for args in ((DLRUN, "models/resnet.dl", "--help=all"), (DLC, "compile", "models/resnet.dl", "--help=all"),
                 (DLC, "verify", "--help=all", "models/resnet.dl")):
        r = run(*args)
        check(r.returncode == 0 and re.search(r"bn_momentum +float +0\.9\n", r.stdout)
              and "global_batch_size" in r.stdout, f"{args}: {r.stdout[:300]} {r.stderr}")
    refused(4, "no file models/none.dl", DLC, "--help", "models/none.dl")
    refused(2, r"unknown option '--embed_dims'; did you mean '--embed_dim'\?", DLRUN, *VIT, "--embed_dims=4")
    refused(2, r"unknown option '--data_size'", DLRUN, *VIT, "--data_size=4")
    refused(2, r"unknown option '--full_scale'", DLRUN, *REGRESSOR, "--full_scale=false")
    refused(2, r"--img_size=\[8,1\.5\]: img_size must be a list whose items are each an integer", DLRUN, *VIT,
            "--img_size=[8,1.5]")
    refused(2, r"--depth=two: depth must be an integer", DLRUN, *VIT, "--depth=two")
    path = write("k.yaml", "base:\n  embed_dim: 8\n  dept: 2\n")
    refused(3, rf"{path}:3:3: error: unknown key 'dept'; did you mean 'depth'\?", DLRUN, "models/vit.dl",
            f"--yaml_config={path}")
    path = write("named.dl", "model A(seed=7, threads=3, lr=1.0, width=4):\n    input x: f32[N, C=2, T=8]\n"
                 "    y = x |> conv(width, 1) @a\n    output y\n    loss = mean(y**2)\n")
    for args in ((DLC, "check", path), (DLC, "compile", path), (DLRUN, path)):
        refused(3,
                r"named\.dl:1:9: error: the argument 'seed' .*DL-E0603(.|\n)*:1:17: error: .*'threads'(.|\n)*:1:28: "
                r"error: .*'lr'", *args)
    refused(3, "has faults: `dlc check` tells them", DLC, "--help", path)


def test_open_edges():
    """data_size is a key of models that leave an edge open, and only of them."""
    text = ("model A(width=3):\n    input x: f32[N, C=2, {}]\n    y = x |> conv(width, 1) @a\n    output y\n"
            "    loss = mean(y**2)\n")
    for axes, has in (("H, W", True), ("H=6, W", True), ("H=6, W=6", False), ("T=6", False)):
        path = write("edge.dl", text.format(axes))
        r = run(DLC, "--help", path)
        check(("data_size" in r.stdout) == has, f"[{axes}]: {r.stdout}")
        r = run(DLC, "compile", path, "--data_size=5", "--dump=ir")
        check(r.returncode == (0 if has else 2) and ("W=5" in r.stdout) == has,
              f"[{axes}]: exit {r.returncode} {r.stderr}")
    path = write("edge.dl", text.replace("width=3", "data_size=7").replace("width", "4").format("H, W"))
    r = run(DLC, "compile", path, "--dump=ir")
    check("H=7, W=7" in r.stdout, f"an argument data_size sizes open edges: {r.stderr}")
    refused(3, "data_size gives axis H the size 0", DLC, "compile", path, "--data_size=0")


def test_vit():
    """System D's schedule, lengths in steps, limits; in fp16, whose scale is recorded."""
    points, err = train("vit", *VIT, "--num_iters=10", "--limit_nsamples=24", "--limit_nsamples_val=8",
                        "--amp_mode=fp16", "--enable_amp")
    check([p["iteration"] for p in points] == [0, 6, 10], f"10 steps of 6 an epoch: {points}")
    # what the next step takes, as its script has it when it logs
    want = [5e-4 * (1 + math.cos(math.pi * i / 10)) / 2 for i in (6, 10)]
    check(all(abs(a - b) < 1e-15 for a, b in zip(rates(points), want)), f"{rates(points)}, not {want}")
    check(all(p["loss_scale"] == 65536 for p in points[1:]) and "warning" not in err, f"fp16 trains: {points} {err}")
    check("adam_beta2 0.95\n" in err and "n_in_channels 3\n" in err, "the configuration's values are logged")
    few = [*VIT, "--limit_nsamples=16", "--limit_nsamples_val=4"]
    train("longer", *few, "--num_iters=6")
    points, _ = train("longer", *few, "--num_iters=13", "--resume")
    check([p["iteration"] for p in points] == [0, 4, 6, 10, 13],
          f"a resume goes on after a short epoch to its own number of steps: {points}")
    points, err = train("longer", *few, "--num_iters=13", "--resume")
    check(len(points) == 5 and "DONE" in err, "and is done when it is")
    points, _ = train("warm", *VIT, "--num_iters=6", "--warmup=8", "--limit_nsamples=12", "--limit_nsamples_val=4")
    want = [5e-4 * min((i + 1) / 8, (1 + math.cos(math.pi * i / 6)) / 2) for i in (3, 6)]
    check(all(abs(a - b) < 1e-15 for a, b in zip(rates(points), want)), f"{rates(points)}, not {want}")
    points, _ = train("epochs", *VIT, "--num_epochs=2", "--lr_schedule=none", "--limit_nsamples=8",
                      "--limit_nsamples_val=4")
    check([p["iteration"] for p in points] == [0, 2, 4] and rates(points) == [5e-4] * 2,
          f"num_epochs of the line beats num_iters of the file: {points}")
    points, _ = train("two", *[a.replace("channels=3", "channels=2") for a in VIT], "--num_iters=2",
                      "--limit_nsamples=8", "--limit_nsamples_val=4")
    check(len(points) == 2, "two channels: no picture of the third")
    refused(4, r"train_data_path: cannot read the folder .*none", DLRUN, *VIT[:2], *VIT[3:],
            f"--train_data_path={TMP}/none", f"--expdir={TMP}/no")
    refused(2, r"limit_nsamples: training has 3 samples, which fill no batch of 4", DLRUN, *VIT, "--limit_nsamples=3",
            f"--expdir={TMP}/no")


def test_regressor():
    """Its authors' names; system C's and B's schedules; a rate that falls and goes on falling after a resume."""
    out = f"{TMP}/end.safetensors"
    points, err = train("regressor", *REGRESSOR, "--max_epochs=2", f"--save_weights={out}")
    check([p["iteration"] for p in points] == [4, 8] and rates(points) == [1e-3] * 2, f"{points}")
    names = {f"{n}.{k}" for n in ("conv_in.0", "conv_hidden.0.0", "conv_out.0") for k in ("weight", "bias")}
    check(set(tensors(out)) == names and tensors(out)["conv_hidden.0.0.weight"] == [4, 4, 3, 3], f"{tensors(out)}")
    with open(f"{TMP}/regressor/expts/test/0/checkpoints/last/model.safetensors", "rb") as a, open(out, "rb") as b:
        check(a.read() == b.read(), "the weights at the end are those of the last checkpoint")
    _, err = train("t2", REGRESSOR[0], "--config=test2", *REGRESSOR[2:], "--max_epochs=1")
    check("Configuration name: test2" in err and err.count("valid_batch_size: validation runs on batches of 4") == 1,
          f"test2: {err[-300:]}")
    _, err = train("t3", *REGRESSOR, "--max_epochs=1", "--valid_batch_size=4")
    check("WARNING" not in err, "nothing to warn of")
    points, err = train("first", REGRESSOR[0], *REGRESSOR[2:], "--max_epochs=1")
    check("Configuration name: test\n" in err,
          "without --config, the first configuration where there is no base and no default")
    # their script records after scheduler.step()
    points, _ = train("cosine", *REGRESSOR, "--max_epochs=3", "--scheduler=cosine")
    want = [1e-3 * (1 + math.cos(math.pi * e / 10)) / 2 for e in range(1, 4)]
    check(all(abs(a - b) < 1e-15 for a, b in zip(rates(points), want)), f"{rates(points)}, not {want}")
    points, _ = train("there and back", *REGRESSOR, "--max_epochs=6", "--scheduler=cosine", "--max_cosine_lr_epochs=2")
    want = [5e-4, 0, 5e-4, 1e-3, 5e-4, 0]
    check(all(abs(a - b) < 1e-15 for a, b in zip(rates(points), want)),
          f"a cosine that comes back: {rates(points)}, not {want}")
    # epoch 3 trains at a rate of 0: its validation loss is that of epoch 2, and it is the best
    best = [p["best_epoch"] for p in points]
    check(points[1]["val_loss"] == points[2]["val_loss"] and (best[1] != 1 or best[2] == 2),
          f"of equal losses the last is the best: {points}")
    points, _ = train("still", *REGRESSOR, "--max_epochs=3", "--lr=0")
    check([p["best_epoch"] for p in points] == [0, 1, 2], f"of equal losses the last is the best: {points}")
    # another batch size from epoch 3 of 4 on: the course goes on where it was, and ends where it would have
    courses = (("warmup_cosine", ["--lr_schedule=warmup_cosine"], lambda share, epoch,
                steps: (1 + math.cos(math.pi * share)) / 2),
               ("cosine", ["--lr_schedule=cosine"], lambda share, epoch,
                steps: (1 + math.cos(math.pi * (share - 1 / 4 / steps))) / 2),
               ("cosine of epochs", ["--scheduler=cosine", "--max_cosine_lr_epochs=4"], lambda share, epoch,
                steps: (1 + math.cos(math.pi * epoch / 4)) / 2),
               ("ranges", ["--lr_schedule=[{start_epoch:\t3,multiplier:\t0.5}]"], lambda share, epoch,
                steps: 0.5 if epoch == 3 else 1))
    for name, args, rate in courses:
        for batch, steps in (2, 8), (8, 2):
            line = [f"batch {batch} {name}", *REGRESSOR, *args, "--log_format=iters"]
            train(*line, "--max_epochs=2")
            points, _ = train(*line, "--max_epochs=4", f"--batch_size={batch}", "--Nsamples_val=8")
            want = [1e-3 * rate((e + 1) / 4, e, steps) for e in (2, 3)]
            check(len(rates(points)) == 4 and all(abs(a - b) < 1e-15 for a, b in zip(rates(points)[2:], want)),
                  f"{name}, batches of {batch} from epoch 3 on: {rates(points)}, not {want}")
    path = write("b.yaml",
                 "default: {lr: 1E-3, max_epochs: 2, max_cosine_lr_epochs: 4, batch_size: 4, data_loader_config: "
                 "synthetic}\n")
    points, _ = train("b", REGRESSOR[0], *REGRESSOR[2:5], "--Nsamples=8", "--Nsamples_val=4", f"--yaml_config={path}")
    check(abs(rates(points)[1] - 1e-3 * (1 + math.cos(math.pi / 4)) / 2) < 1e-15,
          f"max_cosine_lr_epochs alone is a cosine of epochs: {rates(points)}")
    points, _ = train("sgd", *REGRESSOR, "--max_epochs=3", "--optimizer=sgd",
                      "--lr_schedule=[{start_epoch:\t1, end_epoch:\t2, multiplier:\t0.5}]")
    check(rates(points) == [1e-3, 5e-4, 5e-4], f"ranges of epochs, whose factor stays after them: {rates(points)}")
    for scaling, factor in ("none", 1), ("sqrt", math.sqrt(4 / 1.0)), ("linear", 4):
        points, _ = train(f"scaled {scaling}", *REGRESSOR, "--max_epochs=2", f"--scaling={scaling}",
                          "--base_batch_size=1")
        check(rates(points) == [1e-3 * factor] * 2, f"scaling {scaling}: {rates(points)}")
    points, _ = train("warm steps", *REGRESSOR, "--max_epochs=3", "--warmup=9")
    check(all(abs(a - 1e-3 * min(i / 9, 1)) < 1e-15 for a, i in zip(rates(points), (4, 8, 12))),
          f"a warm-up of steps: {rates(points)}")
    path = write("warm.yaml",
                 "default: {lr: 1E-3, max_epochs: 2, warmup: 9, batch_size: 4, data_loader_config: synthetic, "
                 "lr_schedule: none}\n")
    few = [REGRESSOR[0], *REGRESSOR[2:5], "--Nsamples=16", "--Nsamples_val=4", f"--yaml_config={path}"]
    found = rates(train("warm file", *few)[0])
    check(all(abs(a - 1e-3 * i / 9) < 1e-15 for a, i in zip(found, (4, 8))),
          "a warm-up next to lr_schedule: none in one file holds")
    check(rates(train("warm none", *few, "--lr_schedule=none")[0]) == [1e-3] * 2,
          "the line's lr_schedule leaves the file's warm-up out")
    check(rates(train("warm other", *few, "--scheduler=none")[0]) == [1e-3] * 2, "and so does its scheduler")
    found = rates(train("warm line", *few, "--lr_schedule=none", "--warmup=9")[0])
    check(abs(found[0] - 1e-3 * 4 / 9) < 1e-15, "but not the line's own")
    points, _ = train("warm epochs", *REGRESSOR, "--max_epochs=4", "--scheduler=cosine", "--max_cosine_lr_epochs=7",
                      "--lr_warmup_epochs=3")
    want = [1e-3 * min((e + 1) / 3, 1) * (1 + math.cos(math.pi * e / 7)) / 2 for e in range(4)]
    check(len(rates(points)) == 4 and all(abs(a - b) < 1e-15 for a, b in zip(rates(points), want)),
          f"a warm-up of epochs: {rates(points)}, not {want}")
    # noise of mean 0 cannot be learned: the validation loss stays, and the rate falls
    falling = [*REGRESSOR, "--lr=1e-4", "--scheduler=reducelr", "--patience=0", "--optimizer=sgd", "--momentum=0",
               "--synthetic_noise=normal"]
    whole, _ = train("plateau", *falling, "--max_epochs=5")
    check(len(set(rates(whole))) > 2
          and all(abs(b / a - 0.2) < 1e-9 or a == b for a, b in zip(rates(whole), rates(whole)[1:])), f"{rates(whole)}")
    train("cut", *falling, "--max_epochs=2")
    gone_on, _ = train("cut", *falling, "--max_epochs=5", "--resume")
    check(rates(gone_on) == rates(whole) and gone_on[-1]["val_loss"] == whole[-1]["val_loss"],
          f"{rates(gone_on)}, not {rates(whole)}")
    _, err = train("cut", *falling, "--lr=3e-3", "--max_epochs=6", "--resume")
    anew, _ = train("cut", *falling, "--lr=3e-3", "--max_epochs=6", "--resume")
    check("start_lr: 0.0001 in the checkpoint, 0.003 now" in err and rates(anew)[:5] == rates(whole), f"{rates(anew)}")
    fell = rates(anew)[5] / 3e-3 / (rates(whole)[4] / 1e-4)  # after another epoch it may fall once more
    check(min(abs(fell - f) for f in (1, 0.2)) < 1e-9,
          f"another first rate, lowered as far as the one before: {rates(anew)}")
    refused(2, r"save_checkpoint: a run without checkpoints is not in this version", DLRUN, *REGRESSOR,
            "--save_checkpoint=false")


def test_resnet():
    """Classes are drawn within n_classes; buffers are saved; lists, booleans and system E's --optimizer."""
    out = f"{TMP}/resnet.safetensors"
    points, err = train("resnet", *RESNET, "--optimizer=name=SGD,lr=0.01,momentum=0.9", "--Nsamples=16",
                        "--Nsamples_val=8", "--n_epochs=2",
                        f"--save_weights={out}")
    check(all(0 < p[t] < 1e3 for p in points for t in ("Loss/train", "Loss/valid")), f"{points}")
    check("bn1.running_mean" in tensors(out) and "layer1.0.a.conv.weight" in tensors(out)
          and tensors(out)["fc.weight"] == [5, 4], f"{sorted(tensors(out))[:8]}")
    check("optimizer sgd\n" in err and "Configuration name: default\n" in err and rates(points) == [0.01, 0.01],
          "system E's defaults")
    text = "model A(k=5):\n    input x: f32[N, C=2, T=4]\n    target t: i32[N]\n" \
           "    y = mean(x |> conv(k, 1) @a, over=T)\n    output y\n" \
           "    loss = mean((mean(y, over=C) - t)**2)\n"
    refused(3, r"synthetic: 't' is i32\[.*the model does not say how many classes", DLRUN, write("classes.dl", text),
            "--data_loader_config=synthetic",
            "--local_batch_size=2", f"--expdir={TMP}/no")
    text = text.replace("mean((mean(y, over=C) - t)**2)", "mse_loss(softmax(y, over=C), one_hot(t, C=k))")
    points = train("one_hot", write("one_hot.dl", text), "--data_loader_config=synthetic", "--global_batch_size=2",
                   "--Nsamples=8",
                   "--Nsamples_val=4", "--num_epochs=2")[0]
    check(all(0 < p["Loss/train"] < 1 for p in points), f"one_hot says how many classes: {points}")


def test_arrays():
    """Any number of inputs and targets, of any type; or no target."""
    text = "model A(k=5):\n    input a: f32[N, C=2, T=4]\n    input b: i64[N]\n    input c: bool[N, T]\n" \
           "    target t: i32[N]\n    target u: f32[N, C=k]\n" \
           "    y = mean(a |> conv(k, 1) @a, over=T) + one_hot(b, C=k) + mean(c as f32, over=T)\n" \
           "    output y\n    loss = cross_entropy(y, t) + mse_loss(y, u)\n" \
           "    metric top2 = mean(in_top_k(y, t, 2))\n"
    few = ["--data_loader_config=synthetic", "--local_batch_size=4", "--Nsamples=16", "--Nsamples_val=8",
           "--num_epochs=2"]
    many = write("many.dl", text)
    losses = [[p["Loss/train"] for p in train(f"many{w}", many, *few, f"--num_data_workers={w}")[0]] for w in (0, 3)]
    check(losses[0] == losses[1] and len(losses[0]) == 3, f"five arrays, any number of workers: {losses}")
    text = ("model A(k=3):\n    input x: f32[N, C=2, H=8, W=8]\n    y = x |> conv(k, 3, pad=1) @a |> tanh |> conv(2, "
            "3, pad=1) @b\n    output y\n    loss = mean((y - x)**2)\n")
    points, _ = train("auto", write("auto.dl", text), *few[:-1], "--num_epochs=8", "--lr=1e-2", "--lr_schedule=none")
    check(points[-1]["Loss/valid"] < 0.9 * points[0]["Loss/valid"], f"an autoencoder learns without a target: {points}")
    found = [f for d, _, files in os.walk(f"{TMP}/auto") for f in files if f == "prediction.png"]
    check(len(found) == 1, "and is drawn")
    refused(3, r"takes 1 input and 0 targets; the loader 'crops' gives one of each", DLRUN, write("auto.dl", text),
            *few[1:], f"--expdir={TMP}/no")


def test_names_of_the_optimiser():
    """A model's inputs may be called as the optimiser's numbers are."""
    names = ("eps", "lr", "beta1", "beta2", "step", "momentum", "weight_decay", "max_norm")
    text = "model A():\n" + "".join(f"    input {n}: f32[N, T=3]\n" for n in names) + "    target t: f32[N, T=3]\n"
    text += f"    y = {' + '.join(names)} |> linear(3)\n    output y\n    loss = mean((y - t)**2)\n"
    few = ["--data_loader_config=synthetic", "--local_batch_size=4", "--Nsamples=16", "--Nsamples_val=8",
           "--num_epochs=4", "--lr=1e-2",
           "--weight_decay=0.01", "--clip_grad_norm=1"]
    for optimizer in (["--optimizer=adamw"], ["--optimizer=sgd", "--momentum=0.9"]):
        points, _ = train(f"names_{optimizer[0][-4:]}", write("names.dl", text), *few, *optimizer)
        check(points[-1]["Loss/train"] < points[0]["Loss/train"], f"{optimizer}: {points}")


def test_wide_labels():
    """Labels in a file of batches may be PyTorch's int64 where the model says i32, and the other way round; what is no
    i32 is refused."""
    text = ("model A():\n    input x: f32[N, C=2]\n    target t: i32[N]\n    y = x |> linear(3)\n    output y\n"
            "    loss = cross_entropy(y, t)\n")

    def replay(name, dtype, text, *labels):
        save_file(f"{TMP}/{name}.safetensors", {"x.0": ([4, 2], range(8)), "t.0": ([4], labels, dtype)})
        return run(DLRUN, write(f"{name}.dl", text), f"--replay={TMP}/{name}.safetensors", "--local_batch_size=4",
                   f"--expdir={TMP}/{name}")

    def losses(r):
        return [json.loads(line)["loss"] for line in r.stdout.splitlines() if line.startswith("{")
                and '"step"' in line] or [r.stderr[-300:]]

    found = [losses(replay(f"labels_{have}_{want}", have, text.replace("i32", want), 0, 2, 1, 2))
             for want in ("i32", "i64") for have in ("I32", "I64")]
    check(len(found[0]) == 1 and all(f == found[0] for f in found), f"labels of 32 and 64 bits: {found}")
    r = replay("beyond", "I64", text, 0, 2**33, 1, 2)
    check(r.returncode == 3 and "'t.0' holds 8589934592, which is no i32" in r.stderr,
          f"exit {r.returncode}: {r.stderr[-300:]}")


def test_classifier():
    """It binds; what is not compiled yet is named."""
    r = run(DLC, "compile", "models/cnn_classifier.dl", "--input_shape=[16,16,3]", "--n_classes=3")
    check(r.returncode == 0 or (r.returncode == 3 and re.search(r"(max_pool|dropout).*cannot compile", r.stderr)),
          f"exit {r.returncode}: {r.stderr}")


def test_same_bits():
    """One thread, two, and again: the same losses."""
    args = [*VIT, "--num_iters=8", "--limit_nsamples=16", "--limit_nsamples_val=8"]
    losses = [[p["Loss/train"] for p in train(f"bits{i}", *args, f"--threads={t}", f"--num_data_workers={i}")[0]]
              for i, t in enumerate((1, 2, 2))]
    check(losses[0] == losses[1] == losses[2], f"{losses}")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
