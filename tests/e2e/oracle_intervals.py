#!/usr/bin/env python3
"""Points, validation and checkpoints within an epoch (log_every, val_every, save_every, save_every_minutes), validation
after some epochs alone (val_every_epochs), the best checkpoints (keep_best, best_metric), and early_stop: they change
no bit of a run, are neither lost nor doubled where it is stopped, and its validation loss is that which a run of as
many steps ends with.

oracle_intervals.py BUILD [OPTION...]
"""
import json
import sys

from oracle_tools import Workplace, check, finish, load_tensors, save_tensors

MODEL = """model M():
    input x: f32[N, C=3]
    target t: f32[N, K=1]
    y = x |> linear(4) @body |> tanh |> linear(1) @head as [N, K]
    output y
    loss = mse_loss(y, t)
    metric low = min(y)
"""


def main(build, *_):
    place = Workplace(build)
    (place / "m.dl").write_text(MODEL)
    (place / "c.yaml").write_text("base: {}\n")

    def train(name, *args, status=0):
        log = place.run("dlrun", place / "m.dl", f"--yaml_config={place / 'c.yaml'}", "--data_loader_config=synthetic",
                        "--local_batch_size=2",
                        "--Nsamples=20", "--Nsamples_val=8", "--num_epochs=3", "--lr=0.01", "--lr_schedule=none",
                        f"--expdir={place / name}", *args,
                        status=status)
        return log, next((place / name).rglob("metrics.jsonl"))

    def end(name):
        return {p.name: p.read_bytes() for p in (place / name).rglob("last/*.safetensors")}

    def points(path):
        return [json.loads(line) for line in path.read_text().splitlines()]
    every = "--log_every=2", "--val_every=3", "--save_every=4"
    plain_log, plain = train("plain")
    log, path = train("every", *every, "--keep_checkpoints=20")
    check(len(end("plain")) == 2 and end("plain") == end("every"),
          "points, validation and checkpoints within epochs change no bit")
    steps = [p["iteration"] for p in points(path) if "Loss/step" in p]
    check(steps == [i for i in range(1, 30) if i % 10 % 2 == 0 and i % 10], f"a point each 2 steps: {steps}")
    within = [p["iteration"] for p in points(path) if "Loss/valid" in p and p["iteration"] % 10]
    check(within == [3, 6, 9, 13, 16, 19, 23, 26, 29], f"validation each 3 steps: {within}")
    saved = sorted(int(p.name[5:]) for p in (place / "every").rglob("step-*"))
    check(saved == [4, 8, 10, 14, 18, 20, 24, 28, 30], f"checkpoints each 4 steps, and of epochs: {saved}")
    _, short = train("short", "--num_iters=13")
    want, got = ([p["Loss/valid"] for p in points(at) if p["iteration"] == 13 and "Loss/valid" in p]
                 for at in (short, path))
    check(len(got) == 1 and want == got, f"the loss within an epoch is that of a run which ends there: {got}, {want}")
    train("parts", *every, "--stop_after=14", status=75)
    _, parts = train("parts", *every, "--resume=true")
    names = [[(p["iteration"], sorted(k for k in p if k.startswith("Loss"))) for p in points(at)]
             for at in (path, parts)]
    check(end("parts") == end("plain") and names[0] == names[1],
          f"stopped and gone on with: the same bits and points, {names[1]}")
    log, path = train("early", "--num_epochs=50", "--lr=0", "--early_stop=2")
    check(log.count("the learning rate was 0 in all steps of epoch 1") == 1 and log.count("learning rate was 0") == 1
          and "learning rate was 0" not in plain_log, "a rate of 0 is warned of once")
    check("stopping early: 2 epochs without a better validation loss" in log and points(path)[-1]["epoch"] == 3,
          "three epochs of one loss")
    log, path = train("early", "--num_epochs=50", "--lr=0", "--early_stop=2", "--resume=true")
    check(points(path)[-1]["epoch"] == 3, "a run that stopped early does not go on")
    log, path = train("early", "--num_epochs=50", "--lr=0", "--early_stop=4", "--resume=true")
    check(points(path)[-1]["epoch"] == 5, "but it does with more patience, from where it was")
    # validation after every second epoch, and the last
    for form in [], ["--accumulate=2"]:
        name = f"epochs{len(form)}"
        train(name + "all", *form, "--num_epochs=5")
        _, path = train(name, *form, "--num_epochs=5", "--val_every_epochs=2")
        check(end(name) == end(name + "all"), f"{form}: validation changes no bit")
        got = [p["epoch"] for p in points(path) if p["epoch"] and "Loss/valid" in p]
        check(got == [2, 4, 5], f"{form}: validated after epochs {got}")
    # checkpoints by time: at steps that nobody knows before, and a run goes on from each to the same bits
    many = "--Nsamples=40000", "--num_epochs=1", "--keep_checkpoints=1000"
    train("untimed", *many)
    train("timed", *many, "--save_every_minutes=0.0005")
    saved = sorted((place / "timed").rglob("step-*"))
    check(len(saved) > 1 and end("timed") == end("untimed"), f"{len(saved)} checkpoints by time change no bit")
    train("on", *many, f"--resume={saved[0]}")
    check(end("on") == end("untimed"), f"a run goes on from {saved[0].name} to the same bits")
    # the best checkpoints by a metric
    best = "--num_epochs=8", "--keep_checkpoints=1", "--keep_best=3", "--best_metric=low", "--best_goal=maximize"
    train("best", *best, "--stop_after=45", status=75)
    _, path = train("best", *best, "--resume=true")
    value = {p["iteration"]: p["low/valid"] for p in points(path) if p["epoch"]}
    want = sorted(sorted(value, key=lambda i: (value[i], i))[-3:] + [max(value)])
    saved = sorted(int(p.name[5:]) for p in (place / "best").rglob("step-*"))
    check(saved == sorted(set(want)), f"the best three and the last are kept: {saved} of {value}")
    link = next((place / "best").rglob("checkpoints/best")).resolve().name
    check(int(link[5:]) == max(value, key=lambda i: (value[i], i)), f"the link best names {link}")
    log, _ = train("best", *best[:-1], "--resume=true")
    check("best was the maximum of low in the checkpoint, and is the minimum of low now" in log, "another goal is told")
    log = place.run("dlrun", place / "m.dl", f"--yaml_config={place / 'c.yaml'}", "--data_loader_config=synthetic",
                    "--best_metric=lwo", f"--expdir={place / 'no'}", status=2)
    check("the model has no metric 'lwo'; it has low" in log, "a metric that the model lacks")
    # init_partial: what fits is taken, all else is told and begins as it would
    import torch
    other = {"body.weight": torch.randn(4, 3), "head.weight": torch.randn(5, 4), "else": torch.randn(2)}
    save_tensors(place / "other.safetensors", other)
    partly = f"--init_weights={place / 'other.safetensors'}", "--lr=0", "--num_epochs=1"
    log = place.run("dlrun", place / "m.dl", f"--yaml_config={place / 'c.yaml'}", "--data_loader_config=synthetic",
                    *partly, f"--expdir={place / 'no'}", status=3)
    check("is of another model" in log, "a file of another model is refused")
    drawn = load_tensors(next(
        (place / "plain0").rglob("last/model.safetensors"))) if train("plain0", "--lr=0", "--num_epochs=1") else None
    log, _ = train("partial", *partly, "--init_partial=true")
    end_of = load_tensors(next((place / "partial").rglob("last/model.safetensors")))
    first = next(k for k in end_of if k not in ("head.weight", "head.bias") and end_of[k].dim() == 2)
    check(first == "body.weight" and torch.equal(end_of[first], other[first]), f"{first} is taken")
    check(all(torch.equal(end_of[k], drawn[k]) for k in end_of if k != first), "all others begin as they would")
    check("1 of the model's 4 tensors" in log and "not taken: head.weight: the file has" in log
          and "not taken: else: not in the model" in log, "and are told")
    save_tensors(place / "none.safetensors", {"else": torch.zeros(1)})
    log = place.run("dlrun", place / "m.dl", f"--yaml_config={place / 'c.yaml'}", "--data_loader_config=synthetic",
                    "--num_epochs=1", "--init_partial=true",
                    f"--init_weights={place / 'none.safetensors'}", f"--expdir={place / 'no'}", status=3)
    check("has no tensor of this model" in log, "a file without any is refused")
    finish()


main(*sys.argv[1:])
