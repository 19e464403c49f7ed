#!/usr/bin/env python3
"""Systems B and C keep ckpt.tar and ckpt_best.tar, and PyTorch goes on from them: model, optimiser and scheduler
loaded, the same steps made, and the file that our own run keeps at its end is the same.

oracle_checkpoints.py BUILD

And the other way round: our runs go on from the ckpt.tar that such a program left, as it would have itself.

An epoch is one step on all samples, so that their order means nothing. What the samples are is seen through a model
whose gradients they are.
"""
import json
import shutil
import sys

from oracle_tools import Workplace, check, finish, load_tensors, torch

SIDE, SAMPLES, DEPTH = 16, 4, 4
MODERN = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 3)
SMALL = (f"--data_size={SIDE}", f"--depth={DEPTH}", f"--Nsamples={SAMPLES}", f"--Nsamples_val={SAMPLES}",
         f"--batch_size={SAMPLES}")
NOISE = ("--data_loader_config=synthetic", "--synthetic_noise=uniform")  # what the recipes of B and C say, but for
STILL = "--synthetic_redraw=false"  # so that one epoch's batch is every epoch's
MODEL = "models/cnn_regressor.dl"
MULTIGPU = (MODEL, "--yaml_config=models/config/multigpu.yaml", *SMALL, STILL)
TRACKED = (MODEL, "--config=test", *SMALL, STILL)
PROBE = f"""model Probe():
    input  x: f32[N, C=1, H={SIDE}, W={SIDE}]
    target t: f32[N, C=1, H={SIDE}, W={SIDE}]
    param of_x: [N, C, H, W] = 0
    param of_t: [N, C, H, W] = 0
    y = of_x * x + of_t * t
    output y
    loss = sum(y)
"""


# What keeps more than a tensor like each parameter, or keeps it under some options alone: our options, PyTorch's
# optimiser.
OTHERS = (
    ("RMSprop", "{name: RMSprop, momentum: 0.5, centered: true, eps: 1e-2}",
     lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True, eps=1e-2)),
    ("NAdam", "NAdam", lambda p: torch.optim.NAdam(p, lr=0.01, foreach=True)),  # 1.13 has another rule without
    ("Adagrad", "{name: Adagrad, initial_accumulator_value: 0.1}",
     lambda p: torch.optim.Adagrad(p, lr=0.01, initial_accumulator_value=0.1)),
)


class Regressor(torch.nn.Module):
    """models/cnn_regressor.dl with the names that systems B and C give its layers."""

    def __init__(self, width=64):
        super().__init__()

        def layer(c, k):
            return torch.nn.Sequential(torch.nn.Conv2d(c, k, 3, padding="same"), torch.nn.LeakyReLU())

        self.conv_in = layer(1, width)
        self.conv_hidden = torch.nn.ModuleList([layer(width, width) for _ in range(DEPTH - 2)])
        self.conv_out = layer(width, 1)

    def forward(self, x):
        for layer in (self.conv_in, *self.conv_hidden, self.conv_out):
            x = layer(x)
        return x


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True) if MODERN else torch.load(path, map_location="cpu")


def batch_of(place, *args):
    """All training samples of a run with these keys, at its first step: x and t."""
    (place / "probe.dl").write_text(PROBE)
    (place / "probe.yaml").write_text("base: {}\n")
    grads = place / "probe.safetensors"
    place.run("dlrun", place / "probe.dl", f"--yaml_config={place / 'probe.yaml'}", "--config=base", "--num_iters=1",
              f"--save_grads={grads}",
              f"--expdir={place / 'probe'}", f"--Nsamples={SAMPLES}", f"--Nsamples_val={SAMPLES}",
              f"--batch_size={SAMPLES}", *args)
    found = load_tensors(grads)
    return found["of_x"], found["of_t"]


def points(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def worst(a, b):
    """The largest difference of two nested states, each tensor's relative to its norm; infinite where they are not of
    one form."""
    if isinstance(a, torch.Tensor) and a.dim() == 0 and isinstance(b, int):
        return 0 if a.item() == b else float("inf")  # RMSprop's step before PyTorch 2.0, which takes both
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        if not isinstance(a, torch.Tensor) or not isinstance(b,
                                                             torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        return ((a.double() - b.double()).norm() / (b.double().norm() + 1e-30)).item()
    if isinstance(b, dict):
        return max((worst(a[k], b[k]) for k in b), default=0) if set(a) == set(b) else float("inf")
    if isinstance(b, (list, tuple)):
        return max(map(worst, a, b), default=0) if len(a) == len(b) else float("inf")
    if isinstance(b, float):
        return 0 if a == b else abs(a - b) / max(abs(a), abs(b))
    return 0 if a == b else float("inf")


def step(net, optimizer, batch):
    optimizer.zero_grad()
    loss = torch.mean((net(batch[0]) - batch[1]) ** 2)
    loss.backward()
    optimizer.step()
    return loss.item()


def go_on(place, what, args, folder, build, epochs=(2, 5), bound=1e-5):
    """Trains to epochs[0], keeps ckpt.tar, goes on to epochs[1]; then the same from there by PyTorch."""
    batch = batch_of(place, *NOISE)
    check(all(v.min() >= 0 and v.max() < 1 and abs(v.mean() - 0.5) < 0.04
              and abs(v.var() - 1 / 12) < 0.012 for v in batch),
          f"{what}: fields are uniform between 0 and 1")
    run = place / folder
    checkpoint = run / "checkpoints/ckpt.tar"
    place.run("dlrun", *args, f"--max_epochs={epochs[0]}")
    first = place / "first.tar"
    shutil.copy(checkpoint, first)
    output = place.run("dlrun", *args, f"--max_epochs={epochs[1]}")
    check("going on from step" in output, f"{what}: our run goes on from its own checkpoint")
    kept, last, curve = load(first), load(checkpoint), points(run)
    check(list(kept) == ["iters", "epoch", "model_state", "optimizer_state_dict", "scheduler_state_dict"],
          f"{what}: {list(kept)}")
    check((kept["iters"], kept["epoch"], last["iters"], last["epoch"]) ==
          (epochs[0], epochs[0] - 1, epochs[1], epochs[1] - 1),
          f"{what}: iters and epoch (the one just finished, from 0): {kept['iters']}, {kept['epoch']}")

    net = Regressor()
    optimizer, scheduler = build(net)
    names = [n for n, _ in net.named_parameters()]
    check(kept["optimizer_state_dict"]["param_groups"][0]["param_names"] == names
          and list(kept["model_state"]) == names,
          f"{what}: parameters are numbered as model.parameters() gives them")
    net.load_state_dict(kept["model_state"])
    optimizer.load_state_dict(kept["optimizer_state_dict"])
    check((kept["scheduler_state_dict"] is not None) == (scheduler is not None),
          f"{what}: a state of the scheduler where there is one")
    if scheduler:
        scheduler.load_state_dict(kept["scheduler_state_dict"])
    for epoch in range(*epochs):
        loss = step(net, optimizer, batch)
        ours = curve[epoch]
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(ours["val_loss"])
        elif scheduler:
            scheduler.step()
        lr = optimizer.param_groups[0]["lr"]  # recorded after the scheduler's step, as theirs is
        check(abs(lr - ours["learning_rate"]) <= 1e-7 * lr and abs(loss - ours["train_loss"]) <= bound * loss,
              f"{what}: epoch {epoch + 1}: rate {lr:.9g} and {ours['learning_rate']:.9g}, loss {loss:.9g} and "
              f"{ours['train_loss']:.9g}")
    moved = {n: (p - kept["model_state"][n]).norm().item() for n, p in net.state_dict().items()}
    off = max((p - last["model_state"][n]).norm().item() / moved[n] for n, p in net.state_dict().items())
    check(min(moved.values()) > 0 and off < 1e-3,
          f"{what}: weights after {epochs[1] - epochs[0]} more steps: {off:.1e} of the way (at most 1e-3)")
    state, group = optimizer.state_dict()["state"], optimizer.state_dict()["param_groups"][0]
    far = worst(last["optimizer_state_dict"]["state"], state)
    check(state and far < 1e-4, f"{what}: the optimiser's state: {far:.1e} (at most 1e-4)")
    lr = last["optimizer_state_dict"]["param_groups"][0]["lr"]
    check(abs(lr - group["lr"]) <= 1e-7 * lr, f"{what}: the next rate: {lr:.9g} and {group['lr']:.9g}")
    if scheduler:
        theirs = scheduler.state_dict()
        far = {k: worst(v, theirs[k])
               for k, v in last["scheduler_state_dict"].items() if k in theirs and k != "_get_lr_called_within_step"}
        check(len(far) >= 6 and max(far.values()) < 1e-7, f"{what}: the scheduler's state: {far}")
    return curve


def test_best(place, what, run, curve):
    """ckpt_best.tar is of the best epoch, and its weights are those of our own best checkpoint."""
    best = load(run / "checkpoints/ckpt_best.tar")
    check(best["epoch"] == curve[-1]["best_epoch"] and best["iters"] == best["epoch"] + 1,
          f"{what}: ckpt_best.tar is of epoch {best['epoch']} "
          f"from 0, the best is {curve[-1]['best_epoch']} of {len(curve)}")
    ours = load_tensors(run / "checkpoints/best/model.safetensors")
    check(all(torch.equal(best["model_state"][n], ours[n]) for n in ours),
          f"{what}: its weights are those of checkpoints/best")
    left = [p.name for p in (run / "checkpoints").iterdir() if not p.name.startswith("step-")]
    check(sorted(left) == ["best", "ckpt.tar", "ckpt_best.tar", "last"], f"{what}: nothing else is left: {left}")


def test_theirs(place):
    """--init_weights of what a run of theirs on several GPUs keeps, and of what ours does."""
    torch.manual_seed(3)
    batch = batch_of(place, *NOISE)
    wrapped = torch.nn.Module()
    wrapped.module = Regressor()  # as DistributedDataParallel names it
    optimizer = torch.optim.Adam(wrapped.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=25)
    step(wrapped.module, optimizer, batch)
    scheduler.step()
    theirs = place / "theirs.tar"
    torch.save({"iters": 1, "epoch": 0, "model_state": wrapped.state_dict(),
                "optimizer_state_dict": optimizer.state_dict(),
                "scheduler_state_dict": scheduler.state_dict()}, theirs)
    check(all(n.startswith("module.") for n in load(theirs)["model_state"]), "their names begin with module.")
    net = wrapped.module
    want = step(net, torch.optim.Adam(net.parameters(), lr=1e-3), batch)
    after = place / "after.pt"
    place.run("dlrun", *MULTIGPU, f"--root_dir={place / 'started'}", "--max_epochs=1", f"--init_weights={theirs}",
              f"--save_weights={after}")
    loss = points(place / "started/default/0")[0]["train_loss"]
    check(abs(loss - want) <= 1e-5 * want, f"a run from their file: its first loss {loss:.9g}, PyTorch's {want:.9g}")
    before, ours = load(theirs)["model_state"], load(after)
    off = max(((ours[n] - p).norm() / (p - before[f"module.{n}"]).norm()).item() for n, p in net.state_dict().items())
    check(off < 1e-3, f"its first step: {off:.1e} of the way (at most 1e-3)")
    place.run("dlrun", *MULTIGPU, f"--root_dir={place / 'again'}", "--max_epochs=1", "--lr=0",
              f"--save_weights={place / 'same.pt'}",
              f"--init_weights={place / 'started/default/0/checkpoints/ckpt.tar'}")
    same = load(place / "same.pt")
    check(all(torch.equal(same[n], ours[n]) for n in ours), "and from our ckpt.tar: the same bits")


def write_theirs(path, net, optimizer, scheduler, epochs, iters=None, wrap=False):
    """What Trainer.save_checkpoint of B and C writes after so many epochs of one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = "module." if wrap else ""  # as DistributedDataParallel names its own
    torch.save({"iters": iters or epochs, "epoch": epochs - 1,
                "model_state": {prefix + k: v for k, v in net.state_dict().items()},
                "optimizer_state_dict": optimizer.state_dict(),
                "scheduler_state_dict": scheduler.state_dict() if scheduler else None}, path)


def take_over(place, what, args, folder, build, epochs=(3, 6), bound=1e-5, wrap=False):
    """Their program trains to epochs[0] and is stopped; ours goes on in its directory to epochs[1], next to what theirs
    would have done."""
    torch.manual_seed(11)
    batch = batch_of(place, *NOISE)
    net = Regressor()
    optimizer, scheduler = build(net)
    run = place / folder
    plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)

    def epoch_of(epoch, val_loss):
        loss = step(net, optimizer, batch)
        if plateau:
            scheduler.step(val_loss)
        elif scheduler:
            scheduler.step()
        return optimizer.param_groups[0]["lr"], loss

    for epoch in range(epochs[0]):
        epoch_of(epoch, 0.1 if epoch == 0 else 0.2)
    write_theirs(run / "checkpoints/ckpt.tar", net, optimizer, scheduler, epochs[0], wrap=wrap)
    before = {n: p.clone() for n, p in net.state_dict().items()}
    output = place.run("dlrun", *args, f"--max_epochs={epochs[1]}")
    check(
        f"going on from step {epochs[0]} of {run}/checkpoints/ckpt.tar: epoch {epochs[0] + 1}, batch 0 of 1" in output,
        f"{what}: goes on from it")
    check("set otherwise" not in output and "does not say its best validation loss" in output, f"{what}: as it was set")
    curve = points(run)
    check([p["epoch"] for p in curve] == list(range(epochs[0] + 1, epochs[1] + 1)),
          f"{what}: the epochs after it are recorded: {len(curve)}")
    for p in curve:
        lr, loss = epoch_of(p["epoch"], p["val_loss"])
        check(abs(lr - p["learning_rate"]) <= 1e-7 * lr and abs(loss - p["train_loss"]) <= bound * loss,
              f"{what}: epoch {p['epoch']}: rate {lr:.9g} and {p['learning_rate']:.9g}, loss {loss:.9g} and "
              f"{p['train_loss']:.9g}")
    last = load(run / "checkpoints/ckpt.tar")
    moved = {n: (p - before[n]).norm().item() for n, p in net.state_dict().items()}
    off = max((p - last["model_state"][n]).norm().item() / moved[n] for n, p in net.state_dict().items())
    check(min(moved.values()) > 0 and off < 1e-3,
          f"{what}: weights of {epochs[1] - epochs[0]} more epochs: {off:.1e} of the way (at most 1e-3)")
    far = worst(last["optimizer_state_dict"]["state"], optimizer.state_dict()["state"])
    check(far < 1e-4, f"{what}: the optimiser's state: {far:.1e} (at most 1e-4)")
    check((last["iters"], last["epoch"]) == (epochs[1], epochs[1] - 1), f"{what}: ckpt.tar is ours now")
    return run, net, optimizer, scheduler, batch


def test_both(place):
    """B's program and ours take turns in one directory; the further of the two is gone on from."""
    args = (*MULTIGPU, f"--root_dir={place / 't'}", "--max_cosine_lr_epochs=12")
    run, net, optimizer, scheduler, batch = take_over(
        place, "B, theirs", args, "t/default/0",
        lambda n: ((o := torch.optim.Adam(n.parameters(), lr=1e-3)),
                   torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=12)), wrap=True)
    best = min(points(run), key=lambda p: p["val_loss"])
    for _ in range(2):  # their program again, from what ours left: epochs 7 and 8
        step(net, optimizer, batch), scheduler.step()
    write_theirs(run / "checkpoints/ckpt.tar", net, optimizer, scheduler, 8)
    output = place.run("dlrun", *args, "--max_epochs=9")
    check("going on from step 8 of" in output and "ckpt.tar: epoch 9" in output,
          "theirs is further than our own checkpoint")
    last = points(run)[-1]
    loss = step(net, optimizer, batch)
    check(last["epoch"] == 9 and abs(last["train_loss"] - loss) <= 1e-5 * loss,
          f"theirs, ours, theirs, ours: loss {loss:.9g} and {last['train_loss']:.9g}")
    if last["best_epoch"] != 8:  # nothing better came: what our own points say holds
        check((last["best_val_loss"], last["best_epoch"]) == (best["val_loss"], best["epoch"] - 1),
              f"best loss and epoch survive: {last['best_val_loss']}")
    output = place.run("dlrun", *args, "--max_epochs=10")
    check("going on from step 9 of" in output and "checkpoints/step-00000009: epoch 10" in output,
          f"our own is further now")
    (run / "checkpoints/ckpt.tar").write_bytes(b"PK\3\4 torn")
    output = place.run("dlrun", *args, "--max_epochs=11")
    check("passed over for our own checkpoint" in output and "going on from step 10 of" in output,
          "a torn ckpt.tar next to our own is passed over")
    ours = load_tensors(run / "checkpoints/last/model.safetensors")
    output = place.run("dlrun", *args, "--max_epochs=1", "--resume=false")
    check("starting anew" in output and points(run)[-1]["epoch"] == 1 and len(points(run)) == 1,
          "--resume=false begins anew")
    kept = load_tensors(place / "t/default/0.1/checkpoints/last/model.safetensors")
    check(all(torch.equal(kept[n], ours[n]) for n in ours), "and keeps what was there next to it")


def test_refused(place):
    """What cannot be gone on from is said, and nothing is lost."""
    def fault(what, want, change, args=()):
        net = Regressor()
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        step(net, optimizer, (torch.rand(2, 1, SIDE, SIDE), torch.rand(2, 1, SIDE, SIDE)))
        kept = {"iters": 1, "epoch": 0, "model_state": net.state_dict(), "optimizer_state_dict": optimizer.state_dict(),
                "scheduler_state_dict": None}
        path = place / "refused/default/0/checkpoints/ckpt.tar"
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = change(kept) or kept
        path.write_bytes(kept) if isinstance(kept, bytes) else torch.save(kept, path)
        before = path.read_bytes()
        output = place.run("dlrun", *MULTIGPU, f"--root_dir={place / 'refused'}", "--max_epochs=2", *args, status=3)
        check(want in output and "ckpt.tar" in output and path.read_bytes() == before,
              f"{what}: {output.splitlines()[-1]}")

    state = "optimizer_state_dict"
    fault("no optimiser", "no 'optimizer_state_dict'", lambda k: k.pop(state) and None)
    fault("SGD's for Adam", "'momentum_buffer'", lambda k: k[state]["state"][0].update(momentum_buffer=torch.zeros(1)))
    fault("Adam's for SGD", "'exp_avg'", lambda k: None, ("--optimizer=sgd",))
    fault("Adam's for NAdam", "'mu_product' of 'conv_in.0.weight' is no number", lambda k: None, ("--optimizer=nadam",))
    fault("NAdam's for Adam", "keeps 'mu_product', as PyTorch's NAdam does; this run's is Adam",
          lambda k: k[state]["state"][0].update(mu_product=torch.tensor(0.5)))
    fault("Adam's for RMSprop", "keeps 'exp_avg', as PyTorch's Adam does; this run's is RMSprop", lambda k: None,
          ("--optimizer=rmsprop",))
    fault("AdamW's for Adam", "decoupled_weight_decay = 1; this run's Adam always has 0",
          lambda k: k[state]["param_groups"][0].update(decoupled_weight_decay=True))
    fault("another shape", "'exp_avg' of 'conv_in.0.bias' is of another shape",
          lambda k: k[state]["state"][1].update(exp_avg=torch.zeros(3)))
    fault("a missing moment", "'exp_avg_sq' of 'conv_in.0.bias' is not there",
          lambda k: k[state]["state"][1].pop("exp_avg_sq") is None)
    fault("amsgrad", "amsgrad", lambda k: k[state]["param_groups"][0].update(amsgrad=True))
    fault("other steps", "stepped", lambda k: k[state]["state"][2].update(step=torch.tensor(7.0)))
    fault("another model", "8 parameters, the model's state 7",
          lambda k: k["model_state"].pop("conv_out.0.weight") is None)
    fault("no epoch", "'epoch'", lambda k: k.pop("epoch") and None)
    fault("torn", "--resume=false", lambda k: b"PK\3\4 torn")


def main(build):
    place = Workplace(build)
    optim = torch.optim

    curve = go_on(place, "B", (*MULTIGPU, f"--root_dir={place / 'b'}", "--max_cosine_lr_epochs=6"), "b/default/0",
                  lambda net: ((o := optim.Adam(net.parameters(), lr=1e-3)),
                               optim.lr_scheduler.CosineAnnealingLR(o, T_max=6)))
    test_best(place, "B", place / "b/default/0", curve)
    curve = go_on(place, "C", (*TRACKED, f"--root_dir={place / 'c'}", "--lr=0.02"), "c/expts/test/0",
                  lambda net: (optim.Adam(net.parameters(), lr=0.02), None), epochs=(4, 6), bound=1e-4)
    test_best(place, "C", place / "c/expts/test/0", curve)
    curve = go_on(place, "C, sgd, reducelr",
                  (*TRACKED, f"--root_dir={place / 'd'}", "--optimizer=sgd", "--scheduler=reducelr", "--lr=0.3",
                                              "--patience=0"), "d/expts/test/0",
                  lambda net: ((o := optim.SGD(net.parameters(), lr=0.3, momentum=0.9)),
                               optim.lr_scheduler.ReduceLROnPlateau(o, "min", patience=0, min_lr=1e-8, factor=0.2)),
                  epochs=(5, 12), bound=1e-4)
    rates = [p["learning_rate"] for p in curve]
    check(rates[4] > rates[-1], f"C, sgd, reducelr: the rate fell after the file that PyTorch went on from: {rates}")
    test_theirs(place)
    test_both(place)
    take_over(place, "C, theirs", (*TRACKED, f"--root_dir={place / 'u'}", "--lr=0.01"), "u/expts/test/0",
              lambda net: (optim.Adam(net.parameters(), lr=0.01), None), bound=1e-4)
    take_over(place, "C, theirs, sgd, reducelr",
              (*TRACKED, f"--root_dir={place / 'v'}", "--optimizer=sgd", "--scheduler=reducelr", "--lr=0.3",
               "--patience=1"),
              "v/expts/test/0", lambda net: ((o := optim.SGD(net.parameters(), lr=0.3, momentum=0.9)),
                                             optim.lr_scheduler.ReduceLROnPlateau(o, "min", patience=1, min_lr=1e-8,
                                                                                  factor=0.2)), epochs=(4, 8),
              bound=1e-4)
    for i, (name, options, make) in enumerate(OTHERS):
        take_over(place, f"C, theirs, {name}",
                  (*TRACKED, f"--root_dir={place / f'w{i}'}", "--lr=0.01", f"--optimizer={options}"),
                  f"w{i}/expts/test/0",
                  lambda n: (make(n.parameters()), None), epochs=(2, 4), bound=1e-4)
    test_refused(place)
    finish()


main(*sys.argv[1:])
