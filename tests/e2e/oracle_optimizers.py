#!/usr/bin/env python3
"""Whole recipes from the command line against torch.optim and torch.optim.lr_scheduler: losses and weights of 24 steps;
who decays is told by kind of layer. And numbers of a recipe compile nothing.

oracle_optimizers.py BUILD [OPTION...]
"""
import json
import math
import re
import sys

from checks import SHARE, turn
from oracle_nets import Patches, Windows
from oracle_tools import ROOT, Workplace, check, finish, load_tensors, relative, save_tensors, torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

sys.path.insert(0, str(ROOT / "tests/oracle"))
import paper_optimizers as paper  # noqa: E402

STEPS, BATCH = 24, 3
NORMS = nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d


def groups(model, decay):
    """Parameters that decay, and those that do not: of norms, and biases."""
    kept = [p for m in model.modules()
            for name, p in m.named_parameters(recurse=False) if isinstance(m, NORMS) or name == "bias"]
    others = [p for p in model.parameters() if all(p is not k for k in kept)]
    assert kept and others
    return [{"params": others, "weight_decay": decay}, {"params": kept, "weight_decay": 0.0}]


def cosine(at, total):
    return 0.5 * (1 + math.cos(math.pi * at / total))


# Options of dlrun; the same in PyTorch: an optimiser of a model, a schedule of an optimiser; the largest norm of the
# gradients.
RECIPES = {
    "AdamW, weights decay, D's schedule": (
        ["--optimizer=adamw", "--lr=4.1e-3", "--adam_beta1=0.83", "--adam_beta2=0.957", "--adam_eps=3e-5",
         "--weight_decay=0.7",
         "--decay_norm_and_bias=false", "--lr_schedule=cosine", "--warmup=7"],
        lambda m: torch.optim.AdamW(groups(m, 0.7), lr=4.1e-3, betas=(0.83, 0.957), eps=3e-5),
        lambda o: LambdaLR(o, lambda i: min((i + 1) / 7, cosine(i, STEPS))), 0),
    "AdamW, all decays, A's schedule": (
        ["--optimizer=adamw", "--lr=1.3e-3", "--weight_decay=1.9", "--lr_schedule=warmup_cosine", "--end_lr=2e-4"],
        lambda m: torch.optim.AdamW(m.parameters(), lr=1.3e-3, weight_decay=1.9),
        lambda o: LambdaLR(o, lambda i: (2e-4 + (1.3e-3 - 2e-4) * cosine(i + 1, STEPS)) / 1.3e-3), 0),
    "Adam, weights decay, clipped, warm-up": (
        ["--optimizer=adam", "--lr=3.7e-3", "--weight_decay=0.031", "--decay_norm_and_bias=false",
         "--clip_grad_norm=0.2",
         "--lr_schedule=none", "--warmup=11"],
        lambda m: torch.optim.Adam(groups(m, 0.031), lr=3.7e-3),
        lambda o: torch.optim.lr_scheduler.LinearLR(o, start_factor=1 / 11, total_iters=10), 0.2),
    "SGD, Nesterov, all decays": (
        ["--optimizer=name=SGD,lr=1.7e-2,momentum=0.87", "--nesterov", "--weight_decay=0.13", "--lr_schedule=none"],
        lambda m: torch.optim.SGD(m.parameters(), lr=1.7e-2, momentum=0.87, nesterov=True, weight_decay=0.13),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "SGD, momentum, weights decay, clipped": (
        ["--optimizer=sgd", "--lr=2.3e-2", "--momentum=0.7", "--weight_decay=0.19", "--decay_norm_and_bias=false",
         "--lr_schedule=none",
         "--clip_grad_norm=0.25"],
        lambda m: torch.optim.SGD(groups(m, 0.19), lr=2.3e-2, momentum=0.7),
        lambda o: LambdaLR(o, lambda i: 1), 0.25),
}

# Others, by their names and those of their options in a map; one net each, in turn. Of a share every second one, which
# the commit draws: tests/unit/test_optimizers.c holds each against PyTorch always.
OTHERS = {
    "RMSprop": (
        ["--optimizer={name: RMSprop, lr: 2.1e-3, alpha: 0.91}", "--weight_decay=0.07", "--lr_schedule=none"],
        lambda m: torch.optim.RMSprop(m.parameters(), lr=2.1e-3, alpha=0.91, weight_decay=0.07),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "RMSprop, centered, momentum, clipped": (
        ["--optimizer={name: RMSprop, lr: 1.3e-3, rho: 0.8, epsilon: 1e-2, momentum: 0.7, centered: true}",
         "--lr_schedule=none", "--clip_grad_norm=0.2"],
        lambda m: torch.optim.RMSprop(m.parameters(), lr=1.3e-3, alpha=0.8, eps=1e-2, momentum=0.7, centered=True),
        lambda o: LambdaLR(o, lambda i: 1), 0.2),
    "Adagrad, weights decay": (
        ["--optimizer={name: Adagrad, lr: 2.3e-2, lr_decay: 0.05, initial_accumulator_value: 0.02}",
         "--weight_decay=0.19", "--decay_norm_and_bias=false",
         "--lr_schedule=none"],
        lambda m: torch.optim.Adagrad(groups(m, 0.19), lr=2.3e-2, lr_decay=0.05, initial_accumulator_value=0.02),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "Adadelta, D's schedule": (
        ["--optimizer={name: Adadelta, lr: 0.7, rho: 0.85}", "--lr_schedule=cosine", "--warmup=7"],
        lambda m: torch.optim.Adadelta(m.parameters(), lr=0.7, rho=0.85),
        lambda o: LambdaLR(o, lambda i: min((i + 1) / 7, cosine(i, STEPS))), 0),
    "Adamax": (
        ["--optimizer={name: Adamax, lr: 3.1e-3, betas: [0.8, 0.97], eps: 1e-5}", "--lr_schedule=none"],
        lambda m: torch.optim.Adamax(m.parameters(), lr=3.1e-3, betas=(0.8, 0.97), eps=1e-5),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "NAdam, all decays": (
        ["--optimizer={name: Nadam, lr: 2.3e-3, momentum_decay: 0.03}", "--weight_decay=0.05", "--lr_schedule=none"],
        # 1.13 has another rule without
        lambda m: torch.optim.NAdam(m.parameters(), lr=2.3e-3, momentum_decay=0.03, weight_decay=0.05, foreach=True),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "SGD, dampening, maximize": (
        ["--optimizer={name: SGD, lr: 1.7e-3, momentum: 0.8, dampening: 0.3}", "--maximize=true", "--lr_schedule=none"],
        lambda m: torch.optim.SGD(m.parameters(), lr=1.7e-3, momentum=0.8, dampening=0.3, maximize=True),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "AdamW, amsgrad": (
        ["--optimizer=adamw", "--amsgrad", "--lr=2.1e-3", "--weight_decay=0.3", "--lr_schedule=none"],
        lambda m: torch.optim.AdamW(m.parameters(), lr=2.1e-3, weight_decay=0.3, amsgrad=True),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "LAMB": (
        ["--optimizer={name: LAMB, lr: 3.1e-3, betas: [0.8, 0.97]}", "--weight_decay=0.05", "--lr_schedule=none"],
        lambda m: paper.LAMB(m.parameters(), lr=3.1e-3, betas=(0.8, 0.97), weight_decay=0.05),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "Adafactor": (
        ["--optimizer={name: Adafactor, lr: 1.1e-2}", "--weight_decay=0.05", "--lr_schedule=none"],
        lambda m: paper.Adafactor(m.parameters(), lr=1.1e-2, weight_decay=0.05),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "Muon": (
        ["--optimizer={name: Muon, lr: 2.1e-3}", "--weight_decay=0.05", "--lr_schedule=none"],
        lambda m: paper.Muon(m.parameters(), lr=2.1e-3, weight_decay=0.05),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "RAdam": (
        ["--optimizer={name: RAdam, lr: 2.9e-3, beta_2: 0.98}", "--lr_schedule=none"],
        lambda m: torch.optim.RAdam(m.parameters(), lr=2.9e-3, betas=(0.9, 0.98)),
        lambda o: LambdaLR(o, lambda i: 1), 0),
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
    output = place.run("dlrun", path, f"--yaml_config={place / 'models.yaml'}", f"--local_batch_size={BATCH}", *options,
                       "--log_norms",
                       f"--expdir={place / 'runs'}", f"--init_weights={place / 'weights.safetensors'}",
                       f"--replay={place / 'batches.safetensors'}", f"--save_weights={place / 'end.safetensors'}")
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{") and '"step"' in line]
    losses = [line["loss"] for line in lines]
    want, norms, weights = in_torch(model, net.loss, batches, make, schedule, clip)
    if clip:
        check(min(norms) < clip < max(norms),
              f"{name}: the bound {clip} lies among norms of {min(norms):.2f} to {max(norms):.2f}")
    worst = max(abs(a - b) / b for a, b in zip(losses, want))
    # 24 steps of float32, each of which adds a rounding to the weights
    check(len(losses) == STEPS and worst < 1e-4,
          f"{net.__name__}, {name}: {STEPS} losses, worst {worst:.1e} relative (at most 1e-4)")
    for key, of in {"grad_norm": norms, "weight_norm": weights}.items():  # as the losses and the weights at the end
        worst = max(abs(line[key] - b) / b for line, b in zip(lines, of))
        check(worst < 1e-3,
              f"{net.__name__}, {name}: {key} of {STEPS} steps, worst {worst:.1e} relative (at most 1e-3)")
    end = load_tensors(place / "end.safetensors")
    errors = {k: relative(end[k], v.detach()) for k, v in model.named_parameters()}
    worst = max(errors, key=errors.get)
    check(errors[worst] < 1e-3,
          f"{net.__name__}, {name}: weights at the end, worst {errors[worst]:.1e} of {worst} (at most 1e-3)")


def numbers_compile_nothing(place):
    """Every number of a recipe is a variable of the plan."""
    place.empty_cache()
    common = ["models/cnn_regressor.dl", "--config=test", "--hidden=4", "--depth=3", "--data_size=8", "--batch_size=4",
              "--Nsamples=16",
              "--Nsamples_val=4", "--max_epochs=2"]
    kinds = {
        "adamw": (["--optimizer=adamw", "--weight_decay=0.1", "--clip_grad_norm=1", "--lr_schedule=cosine",
                   "--lr=1e-3"],
                  ["--weight_decay=0.7", "--clip_grad_norm=0.01", "--lr=3e-3", "--adam_beta1=0.5", "--adam_beta2=0.7",
                   "--adam_eps=1e-2",
                   "--warmup=3", "--max_epochs=3", "--lr_schedule.start_lr=0.1"]),
        "sgd": (["--optimizer=sgd", "--weight_decay=0.1", "--momentum=0.5", "--nesterov", "--lr=1e-2",
                 "--scheduler=cosine"],
                ["--momentum=0.9", "--weight_decay=0.3", "--end_lr=1e-3", "--max_cosine_lr_epochs=3",
                 "--lr_warmup_epochs=1"]),
        "rmsprop": (["--optimizer=name=RMSprop,momentum=0.5,centered=true", "--lr=1e-3"],
                    ["--optimizer.alpha=0.5", "--optimizer.eps=1e-3", "--momentum=0.9", "--optimizer_defaults=keras"]),
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


SMALL = ["models/cnn_regressor.dl", "--config=test", "--hidden=4", "--depth=3", "--data_size=8", "--batch_size=4",
         "--Nsamples=16", "--Nsamples_val=4"]


def options_are_the_optimizers_own(place):
    """Numbers that nobody gives are each optimiser's, PyTorch's or Keras'; those of another one are told, or are not
    meant for this one."""
    def settings(*args):
        settings.runs += 1
        log = place.run("dlrun", *SMALL, "--max_epochs=1", f"--expdir={place / 'own'}", f"--run_num={settings.runs}",
                        *args)
        text = next((place / "own").rglob(f"{settings.runs}/hyperparams.yaml")).read_text()
        return {k: float(v)
                for k, v in re.findall(r"(optimizer_eps|optimizer_rho|adagrad_initial_accumulator): ([-.\de]+)$", text,
                                       re.M)}, log
    settings.runs = 0
    for name, torch_has, keras_has in (("RMSprop", (1e-8, 0.99, None), (1e-7, 0.9, None)),
                                       ("Adagrad", (1e-10, None, 0), (1e-7, None, 0.1)),
                                       ("Adadelta", (1e-6, 0.9, None), (1e-7, 0.95, None)),
                                       ("Nadam", (1e-8, None, None), (1e-7, None, None))):
        for defaults, want in (("torch", torch_has), ("keras", keras_has)):
            keys = "optimizer_eps", "optimizer_rho", "adagrad_initial_accumulator"
            have, log = settings(f"--optimizer={name}", f"--optimizer_defaults={defaults}")
            check(have == {k: v for k, v in zip(keys, want) if v is not None} and "means nothing" not in log,
                  f"{name}, {defaults}: {have}")
    have, log = settings("--optimizer={name: Adam, alpha: 0.5, eps: 1e-5}")
    told = log.count("optimizer_rho means nothing to the optimizer adam, and is passed over")
    check(have["optimizer_eps"] == 1e-5 and told == 1, f"an option of another is told, once: {told}")
    (place / "sgd.yaml").write_text("base: {optimizer: {name: SGD, momentum: 0.9, nesterov: true}}\n")
    _, log = settings(f"--yaml_config={place / 'sgd.yaml'}", "--config=base", "--optimizer=name=Adam",
                      "--data_loader_config=synthetic")
    check("means nothing" not in log, "not what the file has for the one that the command line replaces")


def goes_on(place):
    """A run that is stopped in the middle and gone on with ends with the bits of an unbroken one, whatever its
    optimiser keeps."""
    for i, optimizer in enumerate(("{name: RMSprop, centered: true, momentum: 0.9}",
                      "{name: Adagrad, initial_accumulator_value: 0.1, lr_decay: 0.1}", "Adadelta",
                      *(("Adamax", "NAdam", "RAdam", "lion", "lamb", "lars", "rprop", "asgd", "muon") if SHARE == 1
                        else ("NAdam",)),
                      "adafactor")):
        if not turn(i):
            continue
        run = [*SMALL, f"--optimizer={optimizer}", "--max_epochs=3", "--lr=1e-2", "--torch_checkpoints=false"]
        name = re.sub(r"\W", "", optimizer)
        place.run("dlrun", *run, f"--expdir={place / name / 'whole'}")
        place.run("dlrun", *run, f"--expdir={place / name / 'parts'}", "--stop_after=5", status=75)
        log = place.run("dlrun", *run, f"--expdir={place / name / 'parts'}")
        ends = [{p.name: p.read_bytes() for p in (place / name / end).rglob("last/*.safetensors")}
                for end in ("whole", "parts")]
        check("going on from step 5" in log and len(ends[0]) == 2 and ends[0] == ends[1],
              f"{optimizer}: stopped and gone on with, the same bits")


def main(build, *_):
    place = Workplace(build)
    (place / "models.yaml").write_text("base: {}\n")
    nets = Patches, Windows
    for i, (name, recipe) in enumerate(RECIPES.items()):
        if not turn(i // 2):
            continue
        for net in nets if SHARE == 1 else [nets[i % 2]]:
            compare(place, net, name, recipe)
    for i, (name, recipe) in enumerate(OTHERS.items()):
        if turn(i, 4):
            compare(place, nets[i // 2 % 2], name, recipe)
    numbers_compile_nothing(place)
    options_are_the_optimizers_own(place)
    goes_on(place)
    finish()


main(*sys.argv[1:])
