#!/usr/bin/env python3
"""Batch norms on several ranks next to PyTorch in float64. With --sync_batch_norm torch's own BatchNorm of the whole
batch, however many ranks share it; without, of each rank's samples apart, rank 0's running statistics being those that
count (as of DistributedDataParallel).

    oracle_batch_norm.py BUILD      by Open MPI, or MPICH where that is not there

Bounds: what float32 makes of sums in another order, 1e-5; a gradient that is zero but for rounding, of a bias in front
of a norm, is held against all together, within 1e-6.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import mpi  # noqa: E402
from checks import run_points  # noqa: E402
from oracle_tools import check, finish, load_tensors, save_tensors, skip, torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

MODEL = """model Normed():
    input  x: f32[N, C=3, H=6, W=5]
    target t: f32[N, C=4]
    a = x |> conv(6, 3, pad=1, bias=false) @c1 |> batch_norm(momentum=0.8) @n1 |> relu
    b = (a |> conv(6, 3, pad=1, bias=false) @c2 |> batch_norm @n2) + a
    y = mean(b, over=[H, W]) |> batch_norm @n3 |> linear(4) @head
    output y
    loss = mean((y - t)**2)
"""
PLAIN = MODEL.replace(" |> batch_norm(momentum=0.8) @n1", "").replace(" |> batch_norm @n2",
                                                                      "").replace(" |> batch_norm @n3", "")
WIDTHS = {"n1": 6, "n2": 6, "n3": 6}
ZERO = "n2.bias"
KEPT = {"n1": 0.2, "n2": 0.1, "n3": 0.1}  # torch's momentum
STEPS, BATCH, RATE, BOUND = 4, 16, 0.05, 1e-5


def initial():
    torch.manual_seed(3)
    made = {"c1.weight": torch.randn(6, 3, 3, 3) / 5, "c2.weight": torch.randn(6, 6, 3, 3) / 7,
            "head.weight": torch.randn(4, 6) / 2, "head.bias": torch.randn(4)}
    for name, n in WIDTHS.items():
        made.update({f"{name}.weight": 1 + torch.randn(n) / 4, f"{name}.bias": torch.randn(n) / 4,
                     f"{name}.running_mean": torch.randn(n),
                     f"{name}.running_var": 1 + torch.rand(n),
                     f"{name}.num_batches_tracked": torch.zeros((), dtype=torch.int64)})
    return made


def of_torch(start, batches, parts):
    """Losses, first gradients and what is left, where `parts` parts of each batch are normalised apart."""
    now = {k: v.double() if v.is_floating_point() else v.clone() for k, v in start.items()}
    weights = {k: v.requires_grad_() for k, v in now.items() if v.is_floating_point() and "running" not in k}
    losses, first = [], None

    def norm(name, x, counts):
        mean, var = now[f"{name}.running_mean"], now[f"{name}.running_var"]
        if not counts:
            mean, var = mean.clone(), var.clone()
        return F.batch_norm(x, mean, var, now[f"{name}.weight"], now[f"{name}.bias"], True, KEPT[name], 1e-5)

    for x, t in batches:
        loss = 0
        for part, (px, pt) in enumerate(zip(x.double().chunk(parts), t.double().chunk(parts))):
            a = F.relu(norm("n1", F.conv2d(px, now["c1.weight"], padding=1), part == 0))
            b = norm("n2", F.conv2d(a, now["c2.weight"], padding=1), part == 0) + a
            y = F.linear(norm("n3", b.mean((2, 3)), part == 0), now["head.weight"], now["head.bias"])
            loss = loss + ((y - pt) ** 2).mean() / parts
        gradients = torch.autograd.grad(loss, list(weights.values()))
        first = first or dict(zip(weights, gradients))
        losses.append(loss.item())
        with torch.no_grad():
            for w, g in zip(weights.values(), gradients):
                w -= RATE * g
        for name in WIDTHS:
            now[f"{name}.num_batches_tracked"] += 1
    return losses, first, now


def off(ours, want, floor=0.0):
    return ((ours.double() - want.double()).norm() / max(want.double().norm().item(), floor, 1e-30)).item()


def main(build):
    mpirun = mpi.find(build, "openmpi") or mpi.find(build, "mpich")
    if not mpirun:
        skip("no MPI, or this build has no module for it")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-norm-"))
    env = {**mpi.environment(), "DLR_MPIRUN": mpirun}
    programs = pathlib.Path(build).resolve() / "cli"
    (folder / "m.dl").write_text(MODEL), (folder / "plain.dl").write_text(PLAIN)
    start, batches = initial(), []
    for _ in range(STEPS):
        x = torch.randn(BATCH, 3, 6,
                        5) * (1 + torch.arange(BATCH).view(-1, 1, 1, 1)) + torch.arange(BATCH).view(-1, 1, 1, 1)
        batches.append((x, torch.randn(BATCH, 4)))  # parts of a batch have other means and deviations
    save_tensors(folder / "w.st", start)
    save_tensors(folder / "b.st", {f"{k}.{i}": v for i, (x, t) in enumerate(batches) for k, v in (("x", x), ("t", t))})
    common = [f"--global_batch_size={BATCH}", "--threads=1", "--optimizer=sgd", f"--start_lr={RATE}",
              "--lr_schedule=none"]

    def dlrun(ranks, name, *args):
        return subprocess.run([programs / "dlrun", "-n", str(ranks), folder / "m.dl", *common,
                               f"--expdir={folder / name}", *args], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def replay(ranks, *args):
        name = f"{ranks}{''.join(args)}"
        files = [folder / f"{name}.{k}" for k in "gw"]
        done = dlrun(ranks, name, f"--replay={folder / 'b.st'}", f"--init_weights={folder / 'w.st'}",
                     f"--save_grads={files[0]}",
                     f"--save_weights={files[1]}", *args)
        check(done.returncode == 0, f"{name}: exit {done.returncode} {done.stderr[-300:] if done.returncode else ''}")
        losses = [json.loads(line)["loss"] for line in done.stdout.splitlines() if line.startswith("{")]
        return (losses, *(load_tensors(f) for f in files)) if done.returncode == 0 else None

    def agrees(what, ours, want, bound=BOUND):
        if not ours:
            return
        losses = max(abs(a - b) / abs(b) for a, b in zip(ours[0], want[0]))
        check(len(ours[0]) == STEPS and losses <= bound, f"{what}: losses {losses:.1e}")
        whole = sum(g.norm() ** 2 for g in want[1].values()).sqrt().item()
        worst = max((off(ours[1][k], g, 0.1 * whole * (k == ZERO)), k) for k, g in want[1].items())
        check(worst[0] <= bound, f"{what}: gradients {worst[0]:.1e} {worst[1]}")
        worst = max((off(ours[2][k], v.detach()), k) for k, v in want[2].items())
        check(set(ours[2]) == set(want[2]) and worst[0] <= bound,
              f"{what}: weights and running statistics {worst[0]:.1e} {worst[1]}")

    whole = of_torch(start, batches, 1)
    agrees("one rank", replay(1), whole)
    for ranks in (2, 4):
        agrees(f"{ranks} ranks, all samples", replay(ranks, "--sync_batch_norm"), whole)
        agrees(f"{ranks} ranks, each its own", replay(ranks), of_torch(start, batches, ranks))
    apart = off(of_torch(start, batches, 2)[2]["n1.running_var"], whole[2]["n1.running_var"])
    check(apart > 0.01, f"the two differ ({apart:.1e})")
    again = [replay(2, "--sync_batch_norm")[0] for _ in range(2)]
    check(again[0] == again[1], "the same bits twice")

    # what the plan shows; one rank, and a model without batch norms, have nothing of it
    def plan(model, ranks, *args, dump="--dump=plan"):
        done = subprocess.run([programs / "dlc", "compile", folder / model, *common, f"--ranks={ranks}", dump, *args],
                              env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(done.returncode == 0, f"dlc compile {model}")
        return re.sub(r"(?m)^.*(wrote|compiled|\bms\b).*$|\.dlp\b", "", done.stdout)

    shown = re.findall(r"begin all_reduce.*a batch's statistics.*", plan("m.dl", 2, "--sync_batch_norm"))
    check(len(shown) == 12 and all("m.dl:" in line for line in shown),
          f"mean, variance and their gradients of three norms: {len(shown)}")
    low = re.findall(r"all_reduce.*a batch's statistics.* : (\S+\[.*?\])",
                     plan("m.dl", 2, "--sync_batch_norm", "--amp_mode=bf16", dump="--dump-after=autodiff"))
    check(len(low) >= 12 and set(low) == {"f32[C=6]"}, f"of bf16 activations in float32: {len(low)} {set(low)}")
    check(not re.search("batch's statistics", plan("m.dl", 2)), "none without the key")
    check(plan("m.dl", 1) == plan("m.dl", 1, "--sync_batch_norm"), "one rank's plan is the same")
    check(plan("plain.dl", 2) == plan("plain.dl", 2, "--sync_batch_norm"), "a plan without batch norms is the same")

    # stopped, and gone on with
    run = ["--data_loader_config=synthetic", "--limit_nsamples=64", "--limit_nsamples_val=16", "--num_iters=6",
           "--sync_batch_norm", "--check_replicas=2"]

    def weights(name):
        points = run_points(folder / name)
        return points[-1].get("Loss/valid") if points else None

    for name, args, code in (("whole", [], 0), ("part", ["--stop_after=3"], 75), ("part", ["--resume"], 0)):
        done = dlrun(2, name, *run, *args)
        check(done.returncode == code,
              f"{name} {args}: exit {done.returncode} {done.stderr[-300:] if done.returncode != code else ''}")
    check(weights("whole") is not None and weights("whole") == weights("part"),
          f"the bits of an unbroken run: {weights('whole')}, {weights('part')}")
    finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
