#!/usr/bin/env python3
"""Sums and means over the samples on 1, 2, 3 and 4 ranks next to PyTorch in float64 on the whole batch: losses with
ignored targets and weighted classes, masked means as models write them, roots of means, sums by N. The ranks of a batch
have unlike numbers of targets that count, one none.

    oracle_masked_means.py BUILD      by Open MPI, or MPICH where that is not there

Every term of the loss has weights of its own, so that each one's gradient is seen by itself. Bounds: what float32 makes
of sums in another order.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import mpi  # noqa: E402
from oracle_tools import check, finish, load_tensors, save_tensors, skip, torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

def slope(y, x):
    return torch.autograd.grad(y, x, create_graph=True)[0]


def segments(y, a, left="vc"):
    """The sums of y - s by classes below 4, and the numbers of their elements, at least 1."""
    chosen = F.one_hot(a.c, CLASSES)[..., :4].to(y.dtype)
    return (torch.einsum(f"nct,ntv->{left}", y - a.s, chosen),
            torch.einsum(f"ntv->{left[:-1]}", chosen)[..., None].clamp(min=1))


CLASSES, TOKENS, BATCH, STEPS = 5, 3, 24, 2
WEIGHTS = [0.2, 1.5, 3.0, 0.7, 0.1]
HEAD = """    {n} = x |> linear(5) @{n} as [N, T, C]
    {n}_ = {dl}
    loss += {n}_
    metric m_{n} = {n}_
"""
FLAT = ('cross_entropy(rearrange({n}, "n t c -> (t n) c") as [B, C], '
        'rearrange(c, "n t -> (t n)") as [B], ignore_index=4)')
# y: scores [N, T, C]; c: classes, 4 ignored; s: shares [N, T, C]; m: a mask [N, T] of 0 and 1; e: squares of y - s,
# mean over C
TERMS = {
    "ignored": ("cross_entropy({n}, c, ignore_index=4)", lambda y, a: F.cross_entropy(y, a.c, ignore_index=4)),
    "weighted": ("cross_entropy({n}, c, weight=w)", lambda y, a: F.cross_entropy(y, a.c, a.w)),
    "both": ("cross_entropy({n}, c, weight=w, ignore_index=4)",
             lambda y, a: F.cross_entropy(y, a.c, a.w, ignore_index=4)),
    "smoothed": ("cross_entropy({n}, c, weight=w, label_smoothing=0.1, ignore_index=4)",
                 lambda y, a: F.cross_entropy(y, a.c, a.w, ignore_index=4, label_smoothing=0.1)),
    "flat": (FLAT, lambda y, a: F.nll_loss(F.log_softmax(y, 1), a.c, ignore_index=4)),
    "flat_first": (FLAT.replace("(t n)", "(n t)"),
                   lambda y, a: F.nll_loss(F.log_softmax(y, 1), a.c, ignore_index=4)),
    "flat_between": ('sqrt(mean(rearrange(({n} - s)**2, "n t c -> c n t") |> rearrange("c n t -> (c n t)") as [Z]))',
                     lambda y, a: F.mse_loss(y, a.s).sqrt()),
    # joined and split again, under another name
    "flat_and_back": ('norm(sum(rearrange({n} - s, "n t c -> (n t) c") as [B, C] '
                      '|> rearrange("(n t) c -> n t c", t=3) as [M, T, C], over=[M, T]))',
                      lambda y, a: (y - a.s).sum((0, 2)).norm()),
    "back_from_within": ('mean(sqrt(sum((rearrange({n} - s, "n t c -> (t n) c") as [B, C] '
                         '|> rearrange("(t n) c -> n t c", t=3) as [M, T, C])**2, over=[T, C])))',
                         lambda y, a: (y - a.s).square().sum((1, 2)).sqrt().mean()),
    "in_pairs": ('norm(sum(rearrange({n} - s, "(a b) t c -> a b t c", b=2) as [A, B, T, C], over=A))',
                 lambda y, a: (y - a.s).view(-1, 2, CLASSES, TOKENS).sum(0).norm()),
    "shares": ("cross_entropy({n}, s, weight=w, over=C)", lambda y, a: F.cross_entropy(y, a.s, a.w)),
    "binary": ("bce_with_logits({n}, s, weight=expand(m, over=C), pos_weight=w)",
               lambda y, a: F.binary_cross_entropy_with_logits(y.movedim(1, -1), a.s.movedim(1, -1), a.m[..., None],
                                                               pos_weight=a.w)),
    "masked": ("sum(mean(({n} - s)**2, over=C) * m) / sum(m)", lambda y, a: (a.e(y) * a.m).sum() / a.m.sum()),
    "at_least": ("sum(mean(({n} - s)**2, over=C) * m) / max(sum(m), 1)",
                 lambda y, a: (a.e(y) * a.m).sum() / a.m.sum().clamp(min=1)),
    "none_count": ("sum(mean(({n} - s)**2, over=C) * 0.0 * m) / (sum(m*0.0) + 1e-3)", lambda y, a: y.sum() * 0),
    "shared_out": ("sum(mean(({n} - s)**2, over=C) * (m / sum(m)))", lambda y, a: (a.e(y) * a.m).sum() / a.m.sum()),
    "chosen": ("mean(where(m > 0, mean(({n} - s)**2, over=C), 0.0)) / mean(m)",
               lambda y, a: (a.e(y) * a.m).sum() / a.m.sum()),
    "dice": ("1 - 2*sum(softmax({n}, over=C)*s) / (sum(softmax({n}, over=C)) + sum(s) + 1e-6)",
             lambda y, a: 1 - 2 * (y.softmax(1) * a.s).sum() / (y.softmax(1).sum() + a.s.sum() + 1e-6)),
    "root": ("sqrt(mean(({n} - s)**2))", lambda y, a: F.mse_loss(y, a.s).sqrt()),
    "length": ("norm({n} - s)", lambda y, a: (y - a.s).norm()),
    "by_size": ("sqrt(sum(({n} - s)**2) / (N*T))", lambda y, a: ((y - a.s) ** 2).sum().div(BATCH * TOKENS).sqrt()),
    "deviation": ("std({n}, over=[N, T]) |> mean", lambda y, a: y.std((0, 2), unbiased=False).mean()),
    "unbiased": ("sum(({n} - mean({n}))**2) / (N*T*C - 1)", lambda y, a: y.var()),
    # read by each rank, and with a gradient: a sum over the batch within what is summed over the batch
    "centred": ("mean(({n} - 0.5*mean({n}) - s)**2)", lambda y, a: F.mse_loss(y - y.mean() / 2, a.s)),
    "softmax_over_n": ("sum(mean(({n} - s)**2, over=C) * exp(mean({n}, over=C)) / sum(exp(mean({n}, over=C))))",
                       lambda y, a: (a.e(y) * y.mean(1).flatten().softmax(0).view_as(a.m)).sum()),
    "sums": ("sum(({n} - s)**2) * 0.01", lambda y, a: ((y - a.s) ** 2).sum() * 0.01),
    "sum_by_n": ("sum(({n} - s)**2) / N", lambda y, a: ((y - a.s) ** 2).sum() / BATCH),
    # derivatives by a rank's own samples: of a mean and of a root over all ranks' samples, and of a derivative
    "slope": ("norm(grad(mean(sin({n})), x))", lambda y, a: slope(y.sin().mean(), a.x).norm()),
    "slope_of_root": ("sum(grad(sqrt(mean({n}**2)), x)**2)", lambda y, a: (slope((y**2).mean().sqrt(), a.x)**2).sum()),
    "slope_of_slope": ("sqrt(mean(grad(sum(grad(sum(sin({n})), x)**3), x)**2))",
                       lambda y, a: (slope((slope(y.sin().sum(), a.x)**3).sum(), a.x)**2).mean().sqrt()),
    # segments of all ranks' samples: sums, and means by numbers of elements that no rank knows alone
    "segments": ("norm(segment_sum({n} - s, c, over=[N, T], V=4))", lambda y, a: segments(y, a)[0].norm()),
    "segment_means": ("norm(segment_mean({n} - s, c, over=[N, T], V=4))",
                      lambda y, a: torch.div(*segments(y, a)).norm()),
    "own_segments": ("norm(segment_mean({n} - s, c, over=T, V=4)) * 0.1",
                     lambda y, a: torch.div(*segments(y, a, "nvc")).norm() * 0.1),
    "plain": ("mse_loss({n}, s)", lambda y, a: F.mse_loss(y, a.s)),
}
MODEL = f"""model Means():
    input x: f32[N, T={TOKENS}, F=4]
    target c: i64[N, T]
    target s: f32[N, T, C={CLASSES}]
    target m: f32[N, T]
    w = {WEIGHTS} as [C]
    loss = 0.0
""" + "".join(HEAD.format(n=n, dl=dl.format(n=n))
              for n, (dl, _) in TERMS.items()) + "    metric count = sum(m > 0)\n    output plain\n"


class Batch:
    """A batch as torch.nn.functional takes it, classes second."""

    def __init__(self, x, c, s, m):
        self.x, self.c, self.s, self.m, self.w = x.double().requires_grad_(), c, s.double().movedim(
            -1, 1), m.double(), torch.tensor(WEIGHTS).double()

    def e(self, y):
        return ((y - self.s) ** 2).mean(1)


def draw(step):
    """Samples of which the first half have no target that counts, and the others ever more."""
    x, s = torch.randn(BATCH, TOKENS, 4), torch.rand(BATCH, TOKENS, CLASSES)
    c = torch.randint(0, 4, (BATCH, TOKENS))
    counts = torch.rand(BATCH, TOKENS) < torch.linspace(-1, 1, BATCH)[:, None]
    return x + torch.arange(BATCH).view(-1, 1, 1) / 4, torch.where(counts, c, 4), s, counts.float()


def of_torch(start, batch):
    weights = {k: v.double().requires_grad_() for k, v in start.items()}
    a = Batch(*batch)
    terms = {n: f(F.linear(a.x, weights[f"{n}.weight"], weights[f"{n}.bias"]).movedim(-1, 1), a)
             for n, (_, f) in TERMS.items()}
    loss = sum(terms.values())
    grads = dict(zip(weights, torch.autograd.grad(loss, list(weights.values()))))
    return loss.item(), {k: v.item() for k, v in terms.items()}, grads


def main(build):
    mpirun = mpi.find(build, "openmpi") or mpi.find(build, "mpich")
    if not mpirun:
        skip("no MPI, or this build has no module for it")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr-means-"))
    env = {**mpi.environment(), "DLR_MPIRUN": mpirun}
    programs = pathlib.Path(build).resolve() / "cli"
    (folder / "m.dl").write_text(MODEL)
    torch.manual_seed(5)
    start = {f"{n}.{k}": torch.randn(shape) / 2 for n in TERMS for k, shape in (("weight", (5, 4)), ("bias", (5,)))}
    batches = [draw(i) for i in range(STEPS)]
    save_tensors(folder / "w.st", start)
    save_tensors(folder / "b.st", {f"{k}.{i}": v for i, b in enumerate(batches) for k, v in zip("xcsm", b)})
    loss, terms, gradients = of_torch(start, batches[0])
    for ranks in (1, 2, 3, 4):
        out = folder / str(ranks)
        done = subprocess.run([programs / "dlrun", "-n", str(ranks), folder / "m.dl", f"--global_batch_size={BATCH}",
                               "--threads=1",
                               "--optimizer=sgd", "--start_lr=0.0", "--lr_schedule=none", f"--expdir={out}",
                               f"--replay={folder / 'b.st'}",
                               f"--init_weights={folder / 'w.st'}", f"--save_grads={out}.g"], env=env,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(done.returncode == 0,
              f"{ranks} ranks: exit {done.returncode} {done.stderr[-300:] if done.returncode else ''}")
        if done.returncode:
            continue
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        check(len(lines) == STEPS and abs(lines[0]["loss"] / loss - 1) < 1e-6,
              f"{ranks} ranks: loss {lines[0]['loss']} {loss}")
        told = {n: abs(lines[0][f"m_{n}"] - v) / max(abs(v), 1) for n, v in terms.items()}
        check(max(told.values()) < 1e-6, f"{ranks} ranks: metrics {max(told.values()):.1e} {max(told, key=told.get)}")
        check(lines[0]["count"] == (batches[0][3] > 0).sum().item(),
              f"{ranks} ranks: a whole number is the whole batch's: {lines[0]['count']}")
        ours = load_tensors(f"{out}.g")
        for n in TERMS:
            want = torch.cat([gradients[f"{n}.{k}"].flatten() for k in ("weight", "bias")])
            got = torch.cat([ours[f"{n}.{k}"].double().flatten() for k in ("weight", "bias")])
            off = ((got - want).norm() / max(want.norm().item(),
                                             1e-30)).item() if n != "none_count" else got.norm().item()
            check(off < 2e-6, f"{ranks} ranks, {n}: gradient {off:.1e}")
    finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
