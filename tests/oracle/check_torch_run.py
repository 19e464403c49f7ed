"""A run kept as PyTorch's file goes on in PyTorch: model_state and optimizer_state_dict loaded into a module and
torch.optim, one more step, and the weights are those that our own next step makes.

check_torch_run.py TORCH_RUN     (the program built from torch_run.c); exit status 77: torch is missing
"""
import pathlib
import subprocess
import sys
import tempfile

from strict import check, finish, is_modern

try:
    import torch
except ImportError:
    print("SKIP: needs torch")
    sys.exit(77)

STEPS, RATE = 5, 2e-3


class Net(torch.nn.Module):
    """What MODEL says."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 6, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(6)
        self.last = torch.nn.Conv2d(6, 2, 1)

    def forward(self, x):
        return self.last(self.norm(torch.relu(self.first(x))))


MODEL = """model Small():
    input  x: f32[N, C=3, H=8, W=8]
    target t: f32[N, C=2, H=8, W=8]
    y = x |> conv(6, 3, pad=1) @first |> relu |> batch_norm() @norm |> conv(2, 1) @last
    output y
    loss = mse_loss(y, t)
"""

# our options, PyTorch's optimiser
OPTIMIZERS = {
    "adam": (["--optimizer=adam"], lambda p: torch.optim.Adam(p, lr=1)),
    "adam with decay": (["--optimizer=adam", "--weight_decay=0.1", "--adam_beta1=0.8", "--adam_beta2=0.95",
                         "--adam_eps=1e-6"],
                        lambda p: torch.optim.Adam(p, lr=1)),
    "adamw": (["--optimizer=adamw", "--weight_decay=0.2"], lambda p: torch.optim.AdamW(p, lr=1)),
    "adamw, vectors apart": (["--optimizer=adamw", "--weight_decay=0.2", "--decay_norm_and_bias=false"],
                             lambda p: torch.optim.AdamW(
        [{"params": [q for q in p if q.dim() > 1]}, {"params": [q for q in p if q.dim() < 2]}], lr=1)),
    "sgd": (["--optimizer=sgd"], lambda p: torch.optim.SGD(p, lr=1)),
    "momentum": (["--optimizer=sgd", "--momentum=0.9", "--weight_decay=0.1"], lambda p: torch.optim.SGD(p, lr=1)),
    "nesterov": (["--optimizer=sgd", "--momentum=0.9", "--nesterov=true"], lambda p: torch.optim.SGD(p, lr=1)),
    "rmsprop": (["--optimizer=name=RMSprop,alpha=0.9"], lambda p: torch.optim.RMSprop(p, lr=1)),
    "rmsprop, centered, with momentum": (["--optimizer=name=RMSprop,eps=1e-4,centered=true,momentum=0.8"],
                                         lambda p: torch.optim.RMSprop(p, lr=1)),
    "adagrad": (["--optimizer=name=Adagrad,lr_decay=0.2,initial_accumulator_value=0.01", "--weight_decay=0.1"],
                lambda p: torch.optim.Adagrad(p, lr=1)),
    "adadelta": (["--optimizer=name=Adadelta,rho=0.8"], lambda p: torch.optim.Adadelta(p, lr=1)),
    "adamax": (["--optimizer=name=Adamax,betas=[0.8,0.9],eps=1e-5"], lambda p: torch.optim.Adamax(p, lr=1)),
    "nadam": (["--optimizer=name=NAdam,momentum_decay=0.02"], lambda p: torch.optim.NAdam(p, lr=1)),
    # by its third step it has a root
    "radam": (["--optimizer=name=RAdam,beta_2=0.9"], lambda p: torch.optim.RAdam(p, lr=1)),
}


def load(path):
    return torch.load(path, map_location="cpu",
                      weights_only=True) if is_modern(torch) else torch.load(path, map_location="cpu")


def check_optimizer(tmp, name, options, make, batches):
    torch.save(batches, tmp / "batches.pt")
    model = tmp / "small.dl"
    model.write_text(MODEL)
    run, after = tmp / "run.tar", tmp / "after.pth"
    r = subprocess.run([sys.argv[1], tmp / "batches.pt", run, after, f"--model={model}", "--local_batch_size=4",
                        f"--start_lr={RATE}", f"--end_lr={RATE}", "--lr_schedule=none", *options], capture_output=True,
                       text=True)
    check(r.returncode == 0, f"{name}: {r.returncode} {r.stderr}")
    kept = load(run)
    check(list(kept) == ["iters", "epoch", "model_state", "optimizer_state_dict", "scheduler_state_dict", "best_loss"],
          name)
    check(kept["iters"] == STEPS - 1 and kept["epoch"] == 2 and kept["scheduler_state_dict"] is None
          and kept["best_loss"] == 0.5, name)
    net = Net()
    net.load_state_dict(kept["model_state"])
    optimizer = make(list(net.parameters()))
    optimizer.load_state_dict(kept["optimizer_state_dict"])
    groups = optimizer.param_groups
    check(all(g["lr"] == RATE and g["initial_lr"] == RATE for g in groups), f"{name}: the rate")
    order = {id(p): n for n, p in net.named_parameters()}
    check(all(g["param_names"] == [order[id(p)] for p in g["params"]] for g in groups),
          f"{name}: parameters by their numbers")
    for g in groups:
        if name == "nadam":
            g["foreach"] = True  # 1.13 has another rule without
    if "sgd" not in options[0]:
        check(all(s["step"] == STEPS - 1 for s in optimizer.state.values()) and len(optimizer.state) == 6,
              f"{name}: steps")
    before = {k: v.clone() for k, v in net.state_dict().items()}
    x, t = batches[f"x.{STEPS - 1}"], batches[f"t.{STEPS - 1}"]
    torch.mean((net(x) - t) ** 2).backward()
    optimizer.step()
    ours = torch.load(after, weights_only=True)
    for key, want in net.state_dict().items():
        moved = (want.double() - before[key].double()).norm()
        off = (ours[key].double() - want.double()).norm()
        check(ours[key].dtype == want.dtype and off <= 1e-3 * moved + 1e-7,
              f"{name}: {key}: off by {off}, moved by {moved}")
    check(any(not torch.equal(before[k], ours[k]) for k in before), f"{name}: a step was made")


with tempfile.TemporaryDirectory() as place:
    torch.manual_seed(2)
    drawn = {f"{k}.{i}": torch.randn(4, c, 8, 8) for i in range(STEPS) for k, c in (("x", 3), ("t", 2))}
    for about, (keys, build) in OPTIMIZERS.items():
        check_optimizer(pathlib.Path(place), about, keys, build, drawn)
finish()
