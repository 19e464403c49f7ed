#!/usr/bin/env python3
"""Means of the weights (ema, swa) against torch.optim.swa_utils.AveragedModel, on the weights of each of 200 steps. A
run validates with them, goes on with them to the same bits, and its exports have them; ranks, shards of the optimizer's
state and the emulated GPU keep the same. AveragedModel goes on from ckpt.tar, and so does a run; sharded checkpoints
hold the same tensors.

oracle_average.py BUILD [OPTION...]
"""
import json
import shutil
import sys

import numpy as np
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


def load(path):
    """A file with real numbers, which PyTorch 1.13 takes for unsafe."""
    modern = int(torch.__version__.split(".")[0]) > 1
    return torch.load(path, weights_only=True) if modern else torch.load(path)


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

    def net():
        layers = {"body": torch.nn.Linear(3, 4), "norm": torch.nn.BatchNorm1d(4), "head": torch.nn.Linear(4, 1)}
        return torch.nn.ModuleDict(layers)

    def load_step(module, kind, step):
        module.load_state_dict(load_tensors(file_of(kind, "model", f"step-{step:08d}")))

    def check_torch(kind, option, avg_fn):
        """PyTorch goes on from the ckpt.tar of three epochs, and so does a run, with nothing else left."""
        dlrun("t", option, "--torch_checkpoints", "--num_epochs=3")
        path = next((place / "t").rglob("ckpt.tar"))
        state = load(path)["model_ema"]
        now = net()
        mean = AveragedModel(now, avg_fn=avg_fn)
        mean.load_state_dict(state)
        check(mean.n_averaged.item() == {"ema": 3 * STEPS, "swa": STEPS}[kind], f"{kind}: {mean.n_averaged} averaged")
        own = load_tensors(file_of("t", "ema"))
        check(all(torch.equal(state["module." + k], v) for k, v in own.items()) and len(state) == len(own) + 1,
              f"{kind}: model_ema is ema.safetensors")
        for step in range(3 * STEPS + 1, 4 * STEPS + 1):
            load_step(now, kind, step)
            mean.update_parameters(now)
        got = load_tensors(file_of(kind, "ema"))
        worst = max(relative(got[k].double(), v.detach().double()) for k, v in mean.module.named_parameters())
        check(worst < 1e-6, f"{kind}: AveragedModel goes on from ckpt.tar: {worst:.1e}")
        for old in list(path.parent.glob("step-*")) + [path.parent / "last", path.parent / "best"]:
            old.unlink() if old.is_symlink() else shutil.rmtree(old)
        torn = load(path)
        log = dlrun("t", option, "--torch_checkpoints", "--resume=true")
        check("ckpt.tar: epoch 4" in log and "mean of the weights" not in log, f"{kind}: goes on from ckpt.tar")
        check(file_of("t", "ema").read_bytes() == file_of(kind, "ema").read_bytes(),
              f"{kind}: a run goes on from ckpt.tar to the same bits")
        folder = path.parent
        for what, change, want, status in (
                ("lacks a tensor", lambda s: s.pop("module.head.bias"),
                 "'model_ema' has 'head.bias' not as a tensor", 3),
                ("another shape", lambda s: s.update({"module.head.bias": torch.zeros(2)}), "of another shape", 3),
                ("no count", lambda s: s.pop("n_averaged"), "has no count 'n_averaged'", 3),
                ("another count", lambda s: s.update(n_averaged=torch.tensor(7)),
                 "its mean of the weights is of 7 steps" if kind == "swa" else "going on", 0)):
            shutil.rmtree(folder), folder.mkdir()
            changed = {**torn, "model_ema": dict(torn["model_ema"])}
            change(changed["model_ema"])
            torch.save(changed, path)
            log = dlrun("t", option, "--torch_checkpoints", "--resume=true", status=status)
            check(want in log, f"{kind}, {what}: {log[-300:]}")

    def shards_of(name, part):
        """The tensors of a part's files at the end, and how many files they are in."""
        files = sorted(next((place / name).rglob("checkpoints/last")).glob(f"{part}-*-of-*.safetensors"))
        return {k: v for f in files for k, v in load_tensors(f).items()}, len(files)

    def check_sharded(kind, option):
        """Each rank writes its own part of the mean, which a run goes on from."""
        for how in (), ("--zero=1",):
            ranks = option, "-n", "2", *how, "--num_epochs=3"
            dlrun("whole", *ranks)
            dlrun("parts", *ranks, "--sharded_checkpoints", "--stop_after=120", status=75)
            dlrun("parts", *ranks, "--sharded_checkpoints", "--resume=true")
            want = load_tensors(file_of("whole", "ema"))
            got, files = shards_of("parts", "ema")
            check(files == 2 and set(got) == set(want), f"{kind} {how}: {files} files, {sorted(got)}")
            if not how:  # otherwise a file may hold a part of a tensor
                check(all(torch.equal(got[k], v) for k, v in want.items()), f"{kind}: shards hold the same bits")
            place.run("dlrun", "predict", next((place / "parts").rglob("checkpoints")).parent, place / "x.npy", "-o",
                      place / "parts.npy", "--checkpoint=last")
            place.run("dlrun", "predict", next((place / "whole").rglob("checkpoints")).parent, place / "x.npy", "-o",
                      place / "whole.npy", "--checkpoint=last")
            check((place / "parts.npy").read_bytes() == (place / "whole.npy").read_bytes(),
                  f"{kind} {how}: predictions by the mean are the same")
            run = next((place / "parts").rglob("checkpoints")).parent
            log = dlrun("alone", option, f"--resume={run}")
            check("no mean of the weights" not in log and file_of("alone", "ema"), f"{kind} {how}: one rank goes on")

    np.save(place / "x.npy", np.random.default_rng(2).standard_normal((8, 3)).astype("f4"))
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
        check_torch(kind, option, avg_fn)
        check_sharded(kind, option)
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
    both = "--ema=0.9", "--swa=1"
    check("--swa=null" in dlrun("no", *both, status=2), "two means are refused")
    dlrun("yes", *both, "--swa=null", "--num_epochs=1")
    finish()


main(*sys.argv[1:])
