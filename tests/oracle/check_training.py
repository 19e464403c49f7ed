"""dlrun next to PyTorch on tests/data/small.dl: the same weights and batches give the same losses and gradients, and a
checkpoint of either is the other's.

check_training.py DLRUN     from the project's root; exit 77 (skip) without numpy and torch
"""
import copy
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from oracle_tools import check, finish, load_tensors, np, save_tensors, torch
from torch import nn
from torch.nn import functional as F

DLRUN = os.path.abspath(sys.argv[1])
STEPS, BATCH, SIZE = 10, 2, 16


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv3d(4, 8, 4, 2, 1)
        self.up = nn.ConvTranspose3d(8, 5, 4, 2, 1)

    def forward(self, x):
        return torch.tanh(self.up(F.leaky_relu(self.down(x), 0.01)))


def rate(i, init, end, total):
    return end + 0.5 * (init - end) * (1 + np.cos(np.pi * i / total))


def train(model, batches, **adam):
    """Ten steps of Adam under the cosine from 1e-2 to 1e-3; losses, the metric "error 1", and the gradients of the
    first step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1, **adam)
    losses, errors, gradients = [], [], None
    for i in range(STEPS):
        optimizer.param_groups[0]["lr"] = rate(i + 1, 1e-2, 1e-3, STEPS)
        optimizer.zero_grad()
        y, t = model(batches[f"x.{i}"]), batches[f"t.{i}"]
        loss = F.l1_loss(y, t)
        errors.append(F.l1_loss(y[:, 1], t[:, 1]).item())
        loss.backward()
        gradients = gradients or {k: p.grad.clone() for k, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, errors, gradients


def dlrun(tmp, *more):
    env = {**os.environ, "DLR_CACHE_DIR": os.environ.get("DLC_TEST_CACHE") or f"{tmp}/cache", "DLR_CACHE_MAX": "0"}
    r = subprocess.run([DLRUN, "tests/data/small.dl", f"--data_size={SIZE}", f"--local_batch_size={BATCH}",
                        "--start_lr=1e-2",
                        "--end_lr=1e-3", f"--expdir={tmp}/runs", *more], capture_output=True, text=True, env=env,
                       stdin=subprocess.DEVNULL)
    check(r.returncode == 0, f"dlrun {more} ends with {r.returncode}: {r.stderr[-300:]}")
    lines = [json.loads(line) for line in r.stdout.splitlines()]
    return [x["loss"] for x in lines], [x["error 1"] for x in lines]


def worst(got, want):
    return max(abs(a - b) / abs(b) for a, b in zip(got, want)) if len(got) == len(want) else float("inf")


with tempfile.TemporaryDirectory(prefix="dlrun_oracle_") as tmp:
    torch.manual_seed(7)
    model = Small()
    batches = {}
    for i in range(STEPS):
        batches[f"x.{i}"] = torch.randn(BATCH, 4, SIZE, SIZE, SIZE)
        batches[f"t.{i}"] = torch.tanh(torch.roll(batches[f"x.{i}"], 1, 2)[:, [0, 1, 2, 3, 0]] * 0.5)
    save_tensors(f"{tmp}/b.safetensors", batches)
    # as from a data-parallel run
    save_tensors(f"{tmp}/w.safetensors", {f"module.{k}": v for k, v in model.state_dict().items()})
    start = copy.deepcopy(model)
    want, errors, gradients = train(model, batches)
    got, got_errors = dlrun(tmp, f"--init_weights={tmp}/w.safetensors", f"--replay={tmp}/b.safetensors",
                            f"--save_grads={tmp}/g.safetensors")
    check(worst(got, want) < 1e-5, f"losses of {STEPS} steps: {worst(got, want):.1e} relative, {got} and {want}")
    check(worst(got_errors, errors) < 1e-5, f"a metric of {STEPS} steps: {worst(got_errors, errors):.1e} relative")
    check(want[-1] < 0.95 * want[0], f"PyTorch learns: {want}")
    g = load_tensors(f"{tmp}/g.safetensors")
    check(set(g) == set(gradients), f"gradients of {sorted(g)}")
    for k in gradients:
        distance = ((g[k] - gradients[k]).norm() / gradients[k].norm()).item()
        check(distance < 1e-4, f"gradient of {k}: {distance:.1e} relative L2")

    # other constants of Adam
    usual, (want, _, _) = want, train(start, batches, betas=(0.5, 0.9), eps=1e-3)
    got, _ = dlrun(tmp, f"--init_weights={tmp}/w.safetensors", f"--replay={tmp}/b.safetensors", "--adam_beta1=0.5",
                   "--adam_beta2=0.9",
                   "--adam_eps=1e-3")
    check(worst(got, want) < 1e-5 < 1e-3 < worst(usual, want),
          f"losses with other betas and eps: {worst(got, want):.1e} relative")

    # a checkpoint of ours in PyTorch: the loss that we report for it is the loss there
    dlrun(tmp, "--data_loader_config=synthetic", "--Nsamples=8", "--Nsamples_val=2", "--num_epochs=1")
    saved = f"{tmp}/runs/small-base/1GPU/00/checkpoints/last/model.safetensors"
    model.load_state_dict(load_tensors(saved))
    with torch.no_grad():
        want = F.l1_loss(model(batches["x.0"]), batches["t.0"]).item()
    got = dlrun(tmp, f"--init_weights={saved}", f"--replay={tmp}/b.safetensors")[0][0]
    check(worst([got], [want]) < 1e-6, f"loss with our checkpoint: {got}, in PyTorch {want}")

    # PyTorch's own files, in and out: a program's checkpoint as weights, batches, gradients, weights at the end
    ddp = {f"module.{k}": v for k, v in model.state_dict().items()}
    torch.save({"iters": 7, "epoch": 1, "model_state": ddp,
                "optimizer_state_dict": torch.optim.Adam(model.parameters()).state_dict(),
                "scheduler_state_dict": None}, f"{tmp}/ckpt.tar")
    torch.save({k: v for k, v in batches.items() if k.split(".")[1] in "012"}, f"{tmp}/b.pt")
    save_tensors(f"{tmp}/b3.safetensors", {k: v for k, v in batches.items() if k.split(".")[1] in "012"})
    ends = f"--save_grads={tmp}/g.pth", f"--save_weights={tmp}/end.tar"
    got = dlrun(tmp, f"--init_weights={tmp}/ckpt.tar", f"--replay={tmp}/b.pt", *ends)
    want = dlrun(tmp, f"--init_weights={saved}", f"--replay={tmp}/b3.safetensors", f"--save_grads={tmp}/g3.safetensors",
                 f"--save_weights={tmp}/end.safetensors")
    check(got == want and len(got[0]) == 3, f"the same run from either format: {got} and {want}")
    for ours, other in (("g.pth", "g3.safetensors"), ("end.tar", "end.safetensors")):
        ours, other = torch.load(f"{tmp}/{ours}", weights_only=True), load_tensors(f"{tmp}/{other}")
        check(set(ours) == set(other) and all(torch.equal(ours[k], other[k]) for k in other),
              f"{sorted(ours)} in either format")
    model.load_state_dict(torch.load(f"{tmp}/end.tar", weights_only=True))
finish()
