#!/usr/bin/env python3
"""Means of the weights (ema, swa) against torch.optim.swa_utils.AveragedModel, on the weights of each of 200 steps. A
run validates with them, goes on with them to the same bits, and its exports have them; ranks, shards of the optimizer's
state and the emulated GPU keep the same.

oracle_average.py BUILD [OPTION...]
"""
import json
import shutil
import sys

from oracle_tools import Workplace, check, finish, load_tensors, relative, torch
from torch.optim.swa_utils import AveragedModel

MODEL = """model M(norm=true):
    input x: f32[N, C=3]
    target t: f32[N, K=1]
    h = x |> linear(4) @body
    if norm: h = h |> batch_norm() @norm
    y = h |> tanh |> linear(1) @head as [N, K]
    output y
    loss = mse_loss(y, t)
"""
DECAY, EPOCHS, STEPS = 0.93, 4, 50  # of an epoch


def main(build, *_):
    place = Workplace(build)
    place.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    (place / "m.dl").write_text(MODEL)
    (place / "c.yaml").write_text("base: {}\n")

    def dlrun(name, *args, status=0):
        if "--resume=true" not in args:
            shutil.rmtree(place / name, ignore_errors=True)
        return place.run("dlrun", place / "m.dl", f"--yaml_config={place / 'c.yaml'}", "--data_loader_config=synthetic",
                         "--batch_size=4", f"--Nsamples={4 * STEPS}", "--Nsamples_val=8", f"--num_epochs={EPOCHS}",
                         "--lr=0.01", "--lr_schedule=none", f"--expdir={place / name}", *args, status=status)

    def file_of(name, file, at="last"):
        return next((place / name).rglob(f"{at}/{file}.safetensors"))

    def points(name):
        return [json.loads(line) for line in next((place / name).rglob("metrics.jsonl")).read_text().splitlines()]

    class Weights(torch.nn.Module):
        def __init__(self, tensors):
            super().__init__()
            for k, v in tensors.items():
                self.register_parameter(k.replace(".", "_"), torch.nn.Parameter(v.double()))

    def averaged(name, avg_fn, begin):
        mean = None
        for step in range(begin + 1, EPOCHS * STEPS + 1):
            tensors = load_tensors(file_of(name, "model", f"step-{step:08d}"))
            now = Weights({k: v for k, v in tensors.items() if "running" not in k and "num_" not in k})
            mean = mean or AveragedModel(now, avg_fn=avg_fn)
            mean.update_parameters(now)
        return {k: v for k, v in mean.module.named_parameters()}

    kinds = {"ema": (f"--ema={DECAY}", lambda mean, now, _: DECAY * mean + (1 - DECAY) * now, 0),
             "swa": ("--swa=2", None, 2 * STEPS)}
    for kind, (option, avg_fn, begin) in kinds.items():
        dlrun(kind, option, "--save_every=1", "--keep_checkpoints=1000")
        got, want = load_tensors(file_of(kind, "ema")), averaged(kind, avg_fn, begin)
        errors = {k: relative(got[k.replace("_", ".", 1)].double(), v.detach()) for k, v in want.items()}
        worst = max(errors, key=errors.get)
        check(len(errors) == 6 and errors[worst] < 1e-6,
              f"{kind}: PyTorch's mean after {EPOCHS * STEPS} steps, {errors[worst]:.1e} of {worst}")
        model = load_tensors(file_of(kind, "model"))
        check(set(got) == set(model) and torch.equal(got["norm.running_mean"], model["norm.running_mean"]),
              f"{kind}: the file has the model's buffers, too")
        dlrun("plain", "--save_every=1")
        check(file_of("plain", "model").read_bytes() == file_of(kind, "model").read_bytes(),
              f"{kind}: the weights themselves are those of a run without")
        # what is validated: the last epoch's loss is that of the file's weights
        dlrun("check", f"--init_weights={file_of(kind, 'ema')}", "--num_iters=1", "--lr=0", "--momentum=0",
              "--optimizer=sgd")
        frozen = load_tensors(file_of("check", "model"))
        check(torch.equal(frozen["body.weight"], got["body.weight"]), f"{kind}: its file is one of weights")
        out = place / f"{kind}.out"
        place.run("dlc", "export", next((place / kind).rglob("checkpoints")).parent, "--as=pytorch", "-o", out,
                  "--checkpoint=last")
        exported = load_tensors(next(out.rglob("*.safetensors")))
        check(any(v.shape == got["body.weight"].shape and torch.equal(v, got["body.weight"])
                  for v in exported.values()), f"{kind}: an export has the mean")
        dlrun("two", option, "--stop_after=83", status=75)
        dlrun("two", option, "--resume=true")
        check(all(file_of(kind, f).read_bytes() == file_of("two", f).read_bytes()
                  for f in ("ema", "model", "optimizer")) and
              points(kind)[-1]["Loss/valid"] == points("two")[-1]["Loss/valid"],
              f"{kind}: a run that is stopped goes on to the same bits")
        short = option.replace("=2", "=0"), "--num_epochs=1", "--norm=false"
        dlrun("one", *short)
        one = load_tensors(file_of("one", "ema"))
        dlrun("its", f"--init_weights={file_of('one', 'ema')}", "--norm=false", "--num_iters=1", "--lr=0",
              "--optimizer=sgd")
        own, its = points("one")[-1]["Loss/valid"], points("its")[-1]["Loss/valid"]
        check(own == its, f"{kind}: the loss that is validated is that of the mean: {own}, {its}")
        for what, args in (("two ranks", ("-n", "2")), ("shards", ("-n", "2", "--zero=1")),
                           ("the emulated GPU", ("--device=cuda:emulated", "--tf32=false"))):
            dlrun("other", *short, *args)
            other = load_tensors(file_of("other", "ema"))
            far = max(relative(other[k].double(), v.double()) for k, v in one.items())
            check(far < 1e-4, f"{kind}, {what}: the mean of one rank on a CPU, {far:.1e}")
    # begun later, and refused
    dlrun("late", "--num_epochs=1")
    log = dlrun("late", "--ema=0.5", "--resume=true")
    check("has no mean of the weights: it begins" in log and file_of("late", "ema"), "ema begins in a run that goes on")
    for args, what in ((("--ema=0.9", "--swa=1"), "--swa=null"),
                       (("--ema=0.9", "--torch_checkpoints"), "--torch_checkpoints=false"),
                       (("--swa=1", "--sharded_checkpoints"), "--sharded_checkpoints=false")):
        check(what in dlrun("no", *args, status=2), f"{' '.join(args)} is refused: {what}")
        dlrun("yes", *args, what, "--num_epochs=1")
    finish()


main(*sys.argv[1:])
