#!/usr/bin/env python3
"""Whole recipes from the command line against torch.optim and torch.optim.lr_scheduler: losses and weights of 24 steps; who decays is
told by kind of layer. And numbers of a recipe compile nothing.

oracle_optimizers.py BUILD [OPTION...]
"""
import json
import math
import sys

from oracle_nets import Patches, Windows
from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

STEPS, BATCH = 24, 3
NORMS = nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d


def groups(model, decay):
    """Parameters that decay, and those that do not: of norms, and biases."""
    kept = [p for m in model.modules() for name, p in m.named_parameters(recurse=False) if isinstance(m, NORMS) or name == "bias"]
    others = [p for p in model.parameters() if all(p is not k for k in kept)]
    assert kept and others
    return [{"params": others, "weight_decay": decay}, {"params": kept, "weight_decay": 0.0}]


def cosine(at, total):
    return 0.5 * (1 + math.cos(math.pi * at / total))


# Options of dlrun; the same in PyTorch: an optimiser of a model, a schedule of an optimiser; the largest norm of the gradients.
RECIPES = {
    "AdamW, weights decay, D's schedule": (
        ["--optimizer=adamw", "--lr=4.1e-3", "--adam_beta1=0.83", "--adam_beta2=0.957", "--adam_eps=3e-5", "--weight_decay=0.7",
         "--decay_norm_and_bias=false", "--lr_schedule=cosine", "--warmup=7"],
        lambda m: torch.optim.AdamW(groups(m, 0.7), lr=4.1e-3, betas=(0.83, 0.957), eps=3e-5),
        lambda o: LambdaLR(o, lambda i: min((i + 1) / 7, cosine(i, STEPS))), 0),
    "AdamW, all decays, A's schedule": (
        ["--optimizer=adamw", "--lr=1.3e-3", "--weight_decay=1.9", "--lr_schedule=warmup_cosine", "--end_lr=2e-4"],
        lambda m: torch.optim.AdamW(m.parameters(), lr=1.3e-3, weight_decay=1.9),
        lambda o: LambdaLR(o, lambda i: (2e-4 + (1.3e-3 - 2e-4) * cosine(i + 1, STEPS)) / 1.3e-3), 0),
    "Adam, weights decay, clipped, warm-up": (
        ["--optimizer=adam", "--lr=3.7e-3", "--weight_decay=0.031", "--decay_norm_and_bias=false", "--clip_grad_norm=0.2",
         "--lr_schedule=none", "--warmup=11"],
        lambda m: torch.optim.Adam(groups(m, 0.031), lr=3.7e-3),
        lambda o: torch.optim.lr_scheduler.LinearLR(o, start_factor=1 / 11, total_iters=10), 0.2),
    "SGD, Nesterov, all decays": (
        ["--optimizer=name=SGD,lr=1.7e-2,momentum=0.87", "--nesterov", "--weight_decay=0.13", "--lr_schedule=none"],
        lambda m: torch.optim.SGD(m.parameters(), lr=1.7e-2, momentum=0.87, nesterov=True, weight_decay=0.13),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "SGD, momentum, weights decay, clipped": (
        ["--optimizer=sgd", "--lr=2.3e-2", "--momentum=0.7", "--weight_decay=0.19", "--decay_norm_and_bias=false", "--lr_schedule=none",
         "--clip_grad_norm=0.25"],
        lambda m: torch.optim.SGD(groups(m, 0.19), lr=2.3e-2, momentum=0.7),
        lambda o: LambdaLR(o, lambda i: 1), 0.25),
}


def in_torch(model, loss_of, batches, make, schedule, clip):
    optimizer = make(model)
    rates = schedule(optimizer)
    losses, norms, weights = [], [], []
    for x, t in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x), t)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf).item())
        optimizer.step()
        rates.step()
        losses.append(loss.item())
        weights.append(torch.cat([p.detach().double().flatten() for p in model.parameters()]).norm().item())
    return losses, norms, weights


def compare(place, net, name, recipe):
    options, make, schedule, clip = recipe
    torch.manual_seed(7)
    model = net()
    save_tensors(place / "weights.safetensors", model.state_dict())
    batches = [[torch.randn((BATCH, *shape[1:])) for shape in net.shapes] for _ in range(STEPS)]
    save_tensors(place / "batches.safetensors", {f"{n}.{i}": v for i, b in enumerate(batches) for n, v in zip("xt", b)})
    path = place / f"{net.__name__.lower()}.dl"
    path.write_text(net.text.lstrip())
    output = place.run("dlrun", path, f"--yaml_config={place / 'models.yaml'}", f"--local_batch_size={BATCH}", *options, "--log_norms",
                       f"--expdir={place / 'runs'}", f"--init_weights={place / 'weights.safetensors'}",
                       f"--replay={place / 'batches.safetensors'}", f"--save_weights={place / 'end.safetensors'}")
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{") and '"step"' in line]
    losses = [line["loss"] for line in lines]
    want, norms, weights = in_torch(model, net.loss, batches, make, schedule, clip)
    if clip:
        check(min(norms) < clip < max(norms), f"{name}: the bound {clip} lies among norms of {min(norms):.2f} to {max(norms):.2f}")
    worst = max(abs(a - b) / b for a, b in zip(losses, want))
    # 24 steps of float32, each of which adds a rounding to the weights
    check(len(losses) == STEPS and worst < 1e-4, f"{net.__name__}, {name}: {STEPS} losses, worst {worst:.1e} relative (at most 1e-4)")
    for key, of in {"grad_norm": norms, "weight_norm": weights}.items():  # as the losses and the weights at the end
        worst = max(abs(line[key] - b) / b for line, b in zip(lines, of))
        check(worst < 1e-3, f"{net.__name__}, {name}: {key} of {STEPS} steps, worst {worst:.1e} relative (at most 1e-3)")
    end = load_tensors(place / "end.safetensors")
    errors = {k: relative(end[k], v.detach()) for k, v in model.named_parameters()}
    worst = max(errors, key=errors.get)
    check(errors[worst] < 1e-3, f"{net.__name__}, {name}: weights at the end, worst {errors[worst]:.1e} of {worst} (at most 1e-3)")


def numbers_compile_nothing(place):
    """Every number of a recipe is a variable of the plan."""
    place.env["DLR_CACHE_DIR"] = str(place / "cache")  # in which nobody else compiles
    common = ["models/cnn_regressor.dl", "--config=test", "--hidden=4", "--depth=3", "--data_size=8", "--batch_size=4", "--Nsamples=16",
              "--Nsamples_val=4", "--max_epochs=2"]
    kinds = {
        "adamw": (["--optimizer=adamw", "--weight_decay=0.1", "--clip_grad_norm=1", "--lr_schedule=cosine", "--lr=1e-3"],
                  ["--weight_decay=0.7", "--clip_grad_norm=0.01", "--lr=3e-3", "--adam_beta1=0.5", "--adam_beta2=0.7", "--adam_eps=1e-2",
                   "--warmup=3", "--max_epochs=3", "--lr_schedule.start_lr=0.1"]),
        "sgd": (["--optimizer=sgd", "--weight_decay=0.1", "--momentum=0.5", "--nesterov", "--lr=1e-2", "--scheduler=cosine"],
                ["--momentum=0.9", "--weight_decay=0.3", "--end_lr=1e-3", "--max_cosine_lr_epochs=3", "--lr_warmup_epochs=1"]),
        "a list": (["--lr_schedule=[{start_epoch:\t0, end_epoch:\t1, multiplier:\t0.5}]"],
                   ["--lr_schedule=[{start_epoch:\t1, end_epoch:\t2, multiplier:\t0.1}]"]),
        "a": (["--lr_schedule=warmup_cosine", "--base_batch_size=1", "--scaling=sqrt", "--warmup_steps=4"],
              ["--scaling=linear", "--warmup_steps=6", "--end_lr=1e-4", "--base_batch_size=2", "--scaling=none"]),
        "plateau": (["--scheduler=reducelr", "--patience=0", "--lr=0.3"], ["--patience=3", "--lr=0.2"]),
    }
    for kind, (first, others) in kinds.items():
        def train(*more):
            output = place.run("dlrun", *common, *first, *more, f"--expdir={place / 'runs'}", f"--run_num={train.runs}",
                               f"--save_weights={place / 'end.safetensors'}")
            train.runs += 1
            return output, load_tensors(place / "end.safetensors")
        train.runs = 1000 * (1 + list(kinds).index(kind))
        output, start = train()
        check("; compiled in" in output, f"{kind}: compiled")
        for other in others:
            output, end = train(other)
            check("; plan from the cache" in output, f"{kind} {other}: compiles nothing")
            if kind != "plateau" or "lr" in other:
                check(any(not torch.equal(start[k], end[k]) for k in start), f"{kind} {other}: other weights")


def main(build, *_):
    place = Workplace(build)
    (place / "models.yaml").write_text("base: {}\n")
    for name, recipe in RECIPES.items():
        for net in (Patches, Windows):
            compare(place, net, name, recipe)
    numbers_compile_nothing(place)
    finish()


main(*sys.argv[1:])
