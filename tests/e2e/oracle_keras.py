#!/usr/bin/env python3
"""What system E's configurations ask Keras for, next to PyTorch and NumPy: losses and metrics by name, momentum under a
rate that changes, the history that is kept.

oracle_keras.py BUILD

The momentum is Keras' with what Horovod's callbacks do to it where they change the rate (momentum_correction, on by
default): the old velocity is scaled by the new rate over the old one for that step. Written out like that here, and by
torch.optim in ours.
"""
import json
import math
import sys

import numpy as np
from oracle_tools import Workplace, check, finish, load_tensors, save_tensors, torch

MODEL = "models/cnn_classifier.dl"
SIDE, BATCH, STEPS, LR = 16, 12, 6, 0.2
F = torch.nn.functional


def scores(p, x):
    for i in 1, 2, 3:
        x = F.max_pool2d(F.relu(F.conv2d(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], padding=1)), 2)
    x = F.relu(F.linear(x.flatten(1), p["fc1.weight"], p["fc1.bias"]))
    return F.linear(x, p["fc2.weight"], p["fc2.bias"])


def soft(y, t, classes):
    p = torch.softmax(y, 1).clamp(1e-7, 1 - 1e-7)
    return p, F.one_hot(t.long(), classes).float()


LOSSES = {
    "categorical_crossentropy": lambda y, t, k: F.cross_entropy(y, t.long()),
    "sparse_categorical_crossentropy": lambda y, t, k: F.cross_entropy(y, t.long()),
    "binary_crossentropy": lambda y, t, k: F.binary_cross_entropy(*soft(y, t, k)),
    "mean_squared_error": lambda y, t, k: F.mse_loss(*soft(y, t, k)),
}


def accuracy(loss, y, t, k):
    if loss != "binary_crossentropy":
        return (y.argmax(1) == t).float().mean().item()
    p, shares = soft(y, t, k)  # Keras' binary_accuracy: of each class by itself
    return (torch.round(p) == shares).float().mean().item()


def start(classes, seed):
    g = torch.Generator().manual_seed(seed)
    widths = [3, 16, 32, 64]
    p = {}
    for i in 1, 2, 3:
        p[f"conv{i}.weight"] = torch.randn(widths[i], widths[i - 1], 3, 3, generator=g) / (3 * widths[i - 1] ** 0.5)
        p[f"conv{i}.bias"] = torch.zeros(widths[i])
    inner = 64 * (SIDE // 8) ** 2
    p["fc1.weight"], p["fc1.bias"] = torch.randn(128, inner, generator=g) / inner ** 0.5, torch.zeros(128)
    p["fc2.weight"], p["fc2.bias"] = torch.randn(classes, 128, generator=g) / 128 ** 0.5, torch.zeros(classes)
    batches = [(torch.randn(BATCH, 3, SIDE, SIDE, generator=g),
                torch.randint(classes, (BATCH,), generator=g, dtype=torch.int32))
               for _ in range(STEPS)]
    return p, batches


def train(p, batches, loss, classes):
    """Keras' SGD with momentum 0.9 along a half cosine, as its own code states it; losses and metrics of each step."""
    p = {k: v.clone().requires_grad_() for k, v in p.items()}
    speed, before, told = {k: torch.zeros_like(v) for k, v in p.items()}, None, []
    for i, (x, t) in enumerate(batches):
        lr = LR * 0.5 * (1 + math.cos(math.pi * i / STEPS))
        y = scores(p, x)
        value = LOSSES[loss](y, t, classes)
        top = y.topk(min(5, classes), 1).indices
        told.append((value.item(), accuracy(loss, y, t, classes), (top == t[:, None]).any(1).float().mean().item()))
        gradients = torch.autograd.grad(value, list(p.values()))
        with torch.no_grad():
            for (k, v), g in zip(p.items(), gradients):
                speed[k] = 0.9 * (lr / before if before else 1) * speed[k] - lr * g
                v += speed[k]
        before = lr
    return {k: v.detach() for k, v in p.items()}, told


def test_loss(place, loss, classes):
    what = f"{loss}, {classes} class{'es' if classes > 1 else ''}"
    p, batches = start(classes, 5)
    save_tensors(place / "init.safetensors", p)
    save_tensors(place / "batches.safetensors", {f"{n}.{i}": v for i, b in enumerate(batches) for n, v in zip("xt", b)})
    output = place.run("dlrun", MODEL, f"--n_classes={classes}", f"--input_shape=[{SIDE}, {SIDE}, 3]", "--dropout=0",
                       f"--loss={loss}",
                       "--metrics=[accuracy, top_k_categorical_accuracy]", "--optimizer=sgd", "--momentum=0.9",
                       f"--start_lr={LR}", "--lr_schedule=cosine",
                       f"--local_batch_size={BATCH}", f"--replay={place / 'batches.safetensors'}",
                       f"--init_weights={place / 'init.safetensors'}",
                       f"--save_weights={place / 'end.safetensors'}", f"--expdir={place / 'replay'}")
    steps = [json.loads(line) for line in output.splitlines() if line.startswith('{"step"')]
    want, told = train(p, batches, loss, classes)
    worst = max(abs(s["loss"] - v[0]) / max(abs(v[0]), 1e-6) for s, v in zip(steps, told))
    check(len(steps) == STEPS and worst < 1e-4, f"{what}: losses of {STEPS} steps: {worst:.1e}")
    off = max(max(abs(s["accuracy"] - v[1]), abs(s["top5"] - v[2])) for s, v in zip(steps, told))
    check(off < 1e-6, f"{what}: accuracy and top-5: {off:.1e}")
    ours = load_tensors(place / "end.safetensors")
    moved = {k: (want[k] - p[k]).norm().item() for k in p}
    if classes == 1:  # one softmax is 1 whatever goes in
        check(all(torch.equal(ours[k], p[k]) for k in p) and not any(moved.values()),
              f"{what}: no gradient, nothing moves")
        return
    off = max((ours[k] - want[k]).norm().item() / moved[k] for k in p)
    check(min(moved.values()) > 0 and off < 1e-3,
          f"{what}: weights, Keras' momentum along a cosine: {off:.1e} of the way (at most 1e-3)")


def test_history(place):
    run = place / "e"
    hello = ("models/config/hello.yaml", f"--output_dir={run}", "--n_train=64", "--n_valid=32", "--n_classes=7",
             "--metrics=[accuracy, top_k_categorical_accuracy]")
    place.run("dlrun", *hello, "--n_epochs=2")
    place.run("dlrun", *hello, "--n_epochs=3", "--resume")
    points = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    tags = {"loss": "Loss/train", "val_loss": "Loss/valid", "acc": "accuracy/train", "val_acc": "accuracy/valid",
            "lr": "Learning Rate",
            "top_k_categorical_accuracy": "top5/train", "val_top_k_categorical_accuracy": "top5/valid"}
    with np.load(run / "history.npz") as f:
        check(sorted(f) == sorted([*tags, "n_ranks"]) and f["n_ranks"] == 1 and f["n_ranks"].shape == (),
              f"history.npz: {sorted(f)}")
        check(all(f[k].dtype == np.float64 and f[k].tolist() == [p[tag] for p in points] for k, tag in tags.items())
              and len(points) == 3,
              "its numbers are those of all epochs, to the last bit")
    output = place.run("dlrun", *hello, "--n_epochs=1", "--metrics=[accuracy]", f"--output_dir={place / 'f'}")
    with np.load(place / "f/history.npz") as f:
        check("val_acc" in f and "val_top_k_categorical_accuracy" not in f and "top-5" not in output,
              "metrics: [accuracy] is that one alone")
    output = place.run("dlrun", *hello, "--loss=hinge", "--dry_run", status=3)
    check("loss is categorical_crossentropy" in output and '"hinge"' in output and "cnn_classifier.dl" in output,
          f"another loss: {output.splitlines()[1]}")
    output = place.run("dlrun", *hello, "--metrics=[mae]", "--dry_run", status=3)
    check("metrics are accuracy" in output and '"mae"' in output, "another metric is refused by name")
    output = place.run("dlrun", "models/config/hello.yaml", f"--output_dir={place / 'g'}", "--n_train=32",
                       "--n_valid=32")
    check("passed over: description\n" in output and "All done!" in output, "hello.yaml as it is runs")


def main(build):
    place = Workplace(build)
    for loss in LOSSES:
        test_loss(place, loss, 7)
    test_loss(place, "binary_crossentropy", 1)
    test_history(place)
    finish()


main(*sys.argv[1:])
