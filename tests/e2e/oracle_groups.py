#!/usr/bin/env python3
"""Parameters that are frozen, or have a rate and a weight decay of their own (freeze, groups), and gradients that are
clipped by value, against torch.optim's groups: 200 steps, in f64. Ranks with shards of the optimizer's state, the
emulated GPU and a run that goes on do the same; a changed number compiles nothing.

oracle_groups.py BUILD [OPTION...]
"""
import shutil
import sys

from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch
from torch import nn

MODEL = """model M():
    input x: {type}[N, C=6]
    target t: {type}[N, K=2]
    y = x |> linear(8) @body.0 |> layer_norm() @body.norm |> tanh |> linear(8) @body.1 |> tanh
        |> linear(2) @head as [N, K]
    output y
    loss = mse_loss(y, t)
"""
BATCH, STEPS = 4, 200


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict({"0": nn.Linear(6, 8), "norm": nn.LayerNorm(8), "1": nn.Linear(8, 8)})
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        h = torch.tanh(self.body["norm"](self.body["0"](x)))
        return self.head(torch.tanh(self.body["1"](h)))


def named(net, *names):
    return [p for n, p in net.named_parameters() if n in names]


def others(net, *names):
    return [p for n, p in net.named_parameters() if n not in names]


HEAD, NORM, FIRST = (tuple(f"{m}.{n}" for n in ("weight", "bias")) for m in ("head", "body.norm", "body.0"))
SCHEDULE = "--lr_schedule={name: step, step_size: 70, gamma: 0.3, unit: step}"
# name: options of dlrun; frozen parameters; PyTorch's optimizer of the others
RECIPES = {
    "AdamW, a frozen layer, norms without decay, the head faster": (
        ["--optimizer=adamw", "--lr=2e-3", "--weight_decay=0.3", "--freeze=body.0.*",
         "--groups=[{params: '*.norm.*', weight_decay: 0}, {params: [head.weight, head.bias], lr: 1e-2}]"], FIRST,
        lambda n: torch.optim.AdamW([{"params": others(n, *NORM, *HEAD, *FIRST)},
                                     {"params": named(n, *NORM), "weight_decay": 0},
                                     {"params": named(n, *HEAD), "lr": 1e-2}], lr=2e-3, weight_decay=0.3), 0),
    "SGD, layer decay, a decay of its own, clipped by value": (
        ["--optimizer={name: sgd, momentum: 0.8}", "--lr=2e-2", "--clip_grad_value=0.05",
         "--groups=[{params: body.0.weight, lr_scale: 0.25, weight_decay: 0.2}, {params: 'body.*', lr_scale: 0.5}]"],
        (),
        lambda n: torch.optim.SGD([{"params": named(n, "body.0.weight"), "lr": 5e-3, "weight_decay": 0.2},
                                   {"params": [p for k, p in n.named_parameters()
                                               if k.startswith("body") and k != "body.0.weight"], "lr": 1e-2},
                                   {"params": named(n, *HEAD)}], lr=2e-2, momentum=0.8), 0.05),
}


def main(build, *_):
    place = Workplace(build)
    place.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    for kind in "f32", "f64":
        (place / f"{kind}.dl").write_text(MODEL.format(type=kind))
    (place / "c.yaml").write_text("base: {}\n")
    torch.manual_seed(5)
    start = Net().double()
    save_tensors(place / "w.safetensors", start.state_dict())
    x, t = torch.randn(STEPS, BATCH, 6).double(), torch.randn(STEPS, BATCH, 2).double()
    for file, convert in (("b", torch.Tensor.double), ("b32", torch.Tensor.float)):
        save_tensors(place / f"{file}.safetensors",
                     {f"{n}.{i}": convert(v[i]) for n, v in (("x", x), ("t", t)) for i in range(STEPS)})

    def dlrun(name, kind, *args, status=0):
        if "--resume=true" not in args:
            shutil.rmtree(place / name, ignore_errors=True)
        return place.run("dlrun", place / f"{kind}.dl", f"--yaml_config={place / 'c.yaml'}",
                         f"--expdir={place / name}", *args, status=status)

    def replay(kind, *args):
        dlrun("t", kind, f"--replay={place / ('b32' if kind == 'f32' else 'b')}.safetensors", f"--batch_size={BATCH}",
              f"--init_weights={place / 'w.safetensors'}", f"--save_weights={place / 'end.safetensors'}", SCHEDULE,
              *args)
        return load_tensors(place / "end.safetensors")

    common = ("--data_loader_config=synthetic", f"--batch_size={BATCH}", "--Nsamples=20", "--Nsamples_val=4",
              "--num_epochs=2", f"--init_weights={place / 'w.safetensors'}")
    for name, (options, frozen, make, clip) in RECIPES.items():
        net = Net().double()
        net.load_state_dict(start.state_dict())
        for p in named(net, *frozen):
            p.requires_grad_(False)
        optimizer = make(net)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 70, 0.3)
        for i in range(STEPS):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x[i]), t[i]).backward()
            if clip:
                nn.utils.clip_grad_value_(net.parameters(), clip)
            optimizer.step()
            schedule.step()
        end = replay("f64", *options)
        errors = {k: relative(end[k], v.detach()) for k, v in net.state_dict().items()}
        worst = max(errors, key=errors.get)
        check(errors[worst] < 1e-6, f"{name}: weights after {STEPS} steps, {errors[worst]:.1e} of {worst}")
        check(all(torch.equal(end[k], start.state_dict()[k]) for k in frozen), f"{name}: what is frozen has its bits")
        # ranks, shards of the optimizer's state, the emulated GPU: in f32, as runs have it
        one = replay("f32", *options)
        for what, args in (("two ranks", ("-n", "2")), ("shards", ("-n", "2", "--zero=1")),
                           ("the emulated GPU", ("--device=cuda:emulated", "--tf32=false"))):
            far = {k: relative(v, one[k]) for k, v in replay("f32", *options, *args).items()}
            check(max(far.values()) < 2e-4, f"{name}, {what}: {max(far.values()):.1e}")
        dlrun("one", "f32", *common, *options)
        dlrun("two", "f32", *common, *options, "--stop_after=7", status=75)
        dlrun("two", "f32", *common, *options, "--resume=true")
        ends = [{p.name: p.read_bytes() for p in (place / d).rglob("last/*.safetensors")} for d in ("one", "two")]
        check(len(ends[0]) == 2 and ends[0] == ends[1], f"{name}: a run that is stopped goes on to the same bits")
        kept = set(load_tensors(next((place / "one").rglob("last/optimizer.safetensors"))))
        check(kept and not any(k.endswith(f) for k in kept for f in frozen), f"{name}: what is frozen has no state")

    # numbers are variables of the plan
    groups = "--groups=[{params: 'body.*', lr_scale: %s, weight_decay: %s}]"
    place.empty_cache()
    dlrun("n", "f32", *common, groups % (0.5, 0.1))
    log = dlrun("n", "f32", *common, groups % (0.7, 0.3))
    check("plan from the cache" in log, "another number of a group compiles nothing")

    # refused
    for args, what in ((("--freeze=boby.0.weight",), "did you mean 'body.0.weight'?"),
                       (("--groups=[{params: 'tail.*', lr: 0.1}]",), "no parameter is called 'tail.*'"),
                       (("--freeze=*",), "all parameters are frozen"),
                       (("--groups=[{lr: 0.1}]",), "must be a list of maps with params"),
                       (("--groups=[{params: 'head.*', lr: 0.1}]", "--start_lr=0"), "lr_scale"),
                       (("--groups=[{params: 'head.*', weight_decay: 0.1}]", "--optimizer=rprop"),
                        "rprop has no weight decay"),
                       (("--freeze=head.*", "--torch_checkpoints"), "--torch_checkpoints=false")):
        log = dlrun("no", "f32", *common, *args, status=2)
        check(what in log, f"{' '.join(args)}: {what}")
    dlrun("yes", "f32", *common, "--groups=[{params: 'head.*', lr_scale: 0.1}]", "--start_lr=0")
    dlrun("yes", "f32", *common, "--freeze=head.*", "--torch_checkpoints", "--torch_checkpoints=false")
    finish()


main(*sys.argv[1:])
