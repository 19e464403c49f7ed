#!/usr/bin/env python3
"""A step of several batches (accumulate): its gradients are those of the whole batch; 200 steps are PyTorch's, with
batch norm by batches; a run that is stopped goes on to the same bits; ranks and the emulated GPU do the same, and ranks
exchange gradients once.

oracle_accumulate.py BUILD [OPTION...]
"""
import json
import shutil
import sys

from oracle_tools import Workplace, check, finish, load_tensors, relative, save_tensors, torch
from torch import nn

MODEL = """model M(norm=true):
    input x: {type}[N, C=6]
    target t: {type}[N, K=2]
    h = x |> linear(8) @body
    if norm: h = h |> batch_norm() @norm
    y = h |> tanh |> linear(2) @head as [N, K]
    output y
    loss = mse_loss(y, t)
    metric mae = mean(abs(y - t))
"""
COUNTED = """model M():
    input x: f32[N, C=6]
    input w: f32[N]
    target t: i32[N]
    param k: [K=5] ~ uniform(-0.4, 0.4)
    y = (x |> linear(5) @head) as [N, K]
    z = y + k
    output z
    loss = {}
    metric hits = sum(where(t == 1, w, 0.0 * w)) / sum(w)
"""
EACH, OF, STEPS = 4, 3, 200  # samples of a batch, batches of a step, steps


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.body(x))))


def weigh_batches(place, dlrun):
    """Means over targets that count, weighted means, sums and functions of N are the whole step's, with ranks, too, and
    in the step that follows. A batch may have no target that counts. Others are a batch's own: the user is told."""
    torch.manual_seed(3)
    x, w = torch.randn(OF, EACH, 6), torch.rand(OF, EACH) * torch.tensor([1.0, 10.0, 0.1])[:, None]
    t = torch.randint(0, 5, (OF, EACH)).to(torch.int32)
    t[0, :3], t[1, 2:], t[2] = -1, 1, -1  # one target counts, all do, none does
    arrays = ("x", x), ("w", w), ("t", t)
    save_tensors(place / "whole.safetensors", {f"{n}.{s}": v.flatten(0, 1) for n, v in arrays for s in range(2)})
    save_tensors(place / "parts.safetensors", {f"{n}.{i}": v[i % OF] for n, v in arrays for i in range(2 * OF)})
    save_tensors(place / "k.safetensors", {"k": torch.randn(5) * 0.3, "head.weight": torch.randn(5, 6) * 0.3,
                                           "head.bias": torch.zeros(5)})
    unbiased, slope = "sum(square(z)) / (N * 5 - 1) + mean(abs(z)) * N", "100 * sum(square(grad(mean(square(z)), x)))"
    for name, loss in (("ignored", "cross_entropy(z, t, ignore_index=-1)"),
                       ("weighted", "sum(w * square(sum(z, over=K) - 1)) / sum(w) + 0.01 * mean(square(k))"),
                       ("summed", f"{unbiased} + {slope} + sum(square(z)) + 0.1 * sum(square(k)) + mean(abs(z))")):
        (place / "counted.dl").write_text(COUNTED.format(loss))
        steps, grads = {}, {}
        for way, batches, of, *ranks in (("whole", "whole", 1), ("parts", "parts", OF),
                                         ("ranks", "parts", OF, "-n", "2")):
            out = dlrun("n", "counted", f"--replay={place / batches}.safetensors", f"--accumulate={of}",
                        f"--global_batch_size={OF * EACH}", "--optimizer=sgd", "--lr=0.1",
                        f"--save_grads={place / way}.g", f"--init_weights={place / 'k.safetensors'}", *ranks)
            lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"step"')]
            steps[way] = [line[k] for line in lines for k in ("loss", "hits")]
            grads[way] = load_tensors(place / f"{way}.g")
            check("WARNING" not in out, f"{name}, {way}: a warning in {out[:2000]}" if "WARNING" in out else
                  f"{name}, {way}: no warning")
        for way in "parts", "ranks":
            worst = max(relative(grads[way][k], g) for k, g in grads["whole"].items())
            far = [abs(a / b - 1) for a, b in zip(steps[way], steps["whole"], strict=True)]
            check(worst < 1e-6 and len(far) == 4 and max(far) < 1e-6,
                  f"{name}, {way}: gradients, losses and metrics are the whole batch's: {worst:.1e} {steps}")
    for loss, told in (("sqrt(mean(square(z)))", "neither a sum or mean over samples nor a quotient of such: with "
                        "accumulate=3 it is the mean of what the batches of 4 samples have"),
                       ("sum(square(z)) / sum(w) + sum(abs(z))", "neither a sum or mean"),
                       ("mean(abs(z)) * mean(square(z))", "neither a sum or mean"),
                       ("sum(softmax(sum(z, over=K), over=N) * w)", "each of the 3 batches of a step takes its own 4 "
                        "samples, so that the loss depends on accumulate")):
        (place / "counted.dl").write_text(COUNTED.format(loss))
        out = dlrun("n", "counted", f"--replay={place / 'parts'}.safetensors", f"--accumulate={OF}",
                    f"--global_batch_size={OF * EACH}")
        check("counted.dl:9:" in out and told in out, f"{loss}: '{told}' is told" if told in out else out[:3000])


def main(build, *_):
    place = Workplace(build)
    place.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    for kind in "f32", "f64":
        (place / f"{kind}.dl").write_text(MODEL.format(type=kind))
    (place / "c.yaml").write_text("base: {}\n")

    def dlrun(name, kind, *args, status=0):
        if "--resume=true" not in args:
            shutil.rmtree(place / name, ignore_errors=True)
        return place.run("dlrun", place / f"{kind}.dl", f"--yaml_config={place / 'c.yaml'}",
                         f"--expdir={place / name}", "--lr_schedule=none", *args, status=status)

    # 200 steps of PyTorch's, in f64
    torch.manual_seed(11)
    net = Net().double()
    save_tensors(place / "w.safetensors", net.state_dict())
    x, t = torch.randn(STEPS * OF, EACH, 6).double(), torch.randn(STEPS * OF, EACH, 2).double()
    both = ("x", x), ("t", t)
    save_tensors(place / "b.safetensors", {f"{n}.{i}": v[i] for n, v in both for i in range(STEPS * OF)})
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.1)
    want, norms = [], {}
    variance = square = 0
    for step in range(STEPS):
        losses = [nn.functional.mse_loss(net(x[i]), t[i]) for i in range(step * OF, step * OF + OF)]
        parts = [torch.cat([g.flatten() for g in torch.autograd.grad(loss, net.parameters(), retain_graph=True)])
                 for loss in losses]
        small, big = sum(g.square().sum() for g in parts) / OF, (sum(parts) / OF).square().sum()
        square = 0.99 * square + 0.01 * (OF * big - small) / (OF - 1)  # McCandlish et al. 2018, appendix A
        variance = 0.99 * variance + 0.01 * (small - big) / (1 - 1 / OF)
        norms.setdefault("noise_scale", []).append(EACH * (variance / square).item())
        optimizer.zero_grad()
        (sum(losses) / OF).backward()
        for name, layer in net.named_children():
            norm = sum(p.grad.square().sum() for p in layer.parameters()).sqrt()
            norms.setdefault(f"grad_norm.{name}", []).append(norm.item())
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        want.append((sum(losses) / OF).item())
        for name, layer in net.named_children():
            norm = sum(p.detach().square().sum() for p in layer.parameters()).sqrt()
            norms.setdefault(f"weight_norm.{name}", []).append(norm.item())
    out = dlrun("t", "f64", f"--replay={place / 'b.safetensors'}", f"--init_weights={place / 'w.safetensors'}",
                f"--save_weights={place / 'end.safetensors'}", f"--local_batch_size={EACH}", f"--accumulate={OF}",
                "--optimizer=adamw", "--lr=3e-3", "--weight_decay=0.1", "--clip_grad_norm=0.5",
                "--log_layer_norms", "--log_noise_scale")
    lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"step"')]
    for name, values in norms.items():
        worst = max(abs(line[name] / v - 1) for line, v in zip(lines, values))
        check(worst < 1e-6, f"{name} of {STEPS} steps, before clipping, is PyTorch's: {worst:.1e}")
    check(len(norms) == 7, f"three layers and the noise: {sorted(norms)}")
    got = [json.loads(line)["loss"] for line in out.splitlines() if line.startswith('{"step"')]
    worst = max(abs(a - b) / b for a, b in zip(got, want))
    check(len(got) == STEPS and worst < 1e-6, f"{len(got)} losses are PyTorch's means: {worst:.1e}")
    end = load_tensors(place / "end.safetensors")
    errors = {k: relative(end[k], v.detach()) for k, v in net.state_dict().items() if v.dtype.is_floating_point}
    worst = max(errors, key=errors.get)
    check(errors[worst] < 1e-6, f"weights and running statistics after {STEPS} steps: {errors[worst]:.1e} of {worst}")
    check(end["norm.num_batches_tracked"] == STEPS * OF, "statistics move once a batch")

    for args, why in ((["--accumulate=1"], "--accumulate=2 or more, or several ranks"),
                      (["--accumulate=2", "--amp_mode=fp16"], "fp16's gradients are scaled")):
        text = dlrun("no", "f32", "--data_loader_config=synthetic", "--log_noise_scale", *args, status=2)
        check(why in text, f"{args}: {text}")

    # the gradients of the whole batch
    grads = {}
    whole = {f"{n}.0": v[:OF].reshape(OF * EACH, -1).float() for n, v in both}
    parts = {f"{n}.{i}": v[i].float() for n, v in both for i in range(OF)}
    save_tensors(place / "whole.safetensors", whole)
    save_tensors(place / "parts.safetensors", parts)
    for name, batches, each, of, more in (("whole", "whole", OF * EACH, 1, ()), ("parts", "parts", EACH, OF, ()),
                                          ("fp16", "parts", EACH, OF, ("--amp_mode=fp16",)),
                                          ("gpu", "parts", EACH, OF, ("--device=cuda:emulated", "--tf32=false"))):
        dlrun("g", "f32", "--norm=false", f"--replay={place / batches}.safetensors", f"--local_batch_size={each}",
              f"--accumulate={of}", "--optimizer=sgd", "--lr=0.1", f"--save_grads={place / name}.g", *more)
        grads[name] = load_tensors(place / f"{name}.g")
    for name, most in (("parts", 1e-6), ("gpu", 1e-6), ("fp16", 3e-3)):
        worst = max(relative(grads[name][k], g) for k, g in grads["whole"].items())
        check(worst < most, f"{name}: gradients of {OF} batches are those of the whole one: {worst:.1e} (below {most})")

    weigh_batches(place, dlrun)

    # runs: 11 batches of an epoch are 3 steps and two batches that are left out
    common = ("--data_loader_config=synthetic", f"--global_batch_size={EACH * OF}", "--Nsamples=44",
              "--Nsamples_val=8", "--num_epochs=4", "--lr=0.01", f"--accumulate={OF}")

    def end_of(name):
        return {p.name: p.read_bytes() for p in (place / name).rglob("last/*.safetensors")}

    def points(name):
        return [{k: v for k, v in json.loads(line).items() if k in ("epoch", "iteration", "Loss/train", "mae/train")}
                for line in next((place / name).rglob("metrics.jsonl")).read_text().splitlines()]
    for kind in "cpu", "cuda:emulated":
        for measured in (), ("--enable_benchy",):
            args = (*common, f"--device={kind}", *measured)
            dlrun("one", "f32", *args)
            dlrun("two", "f32", *args, "--stop_after=5", "--save_every=2", status=75)
            dlrun("two", "f32", *args, "--resume=true")
            check(len(end_of("one")) == 2 and end_of("one") == end_of("two"), f"{kind} {measured}: resumed, same bits")
            check(points("one") == points("two") and points("one")[-1]["iteration"] == 12,
                  f"{kind} {measured}: and the same points, of 12 steps")
    names = set(load_tensors(next((place / "one").rglob("last/optimizer.safetensors"))))
    check(not any("accumulated" in n for n in names) and "exp_avg.body.weight" in names, "no sum is in a checkpoint")
    # batches that follow one another, with the last epoch's two not among them
    dlrun("once", "f32", *common, "--norm=false", "--enable_benchy", "--num_epochs=2")
    dlrun("more", "f32", *common, "--norm=false", "--num_epochs=2")
    check(end_of("once") == end_of("more"), "an epoch begins with its first batch, with and without validation")

    # ranks
    halves = {f"{n}.{i}": torch.cat([v[2 * i], v[2 * i + 1]]).float() for n, v in both for i in range(2)}
    save_tensors(place / "halves.safetensors", halves)
    save_tensors(place / "both.safetensors", {f"{n}.0": torch.cat([halves[f"{n}.0"], halves[f"{n}.1"]]) for n in "xt"})
    layers = {k: v.float() for k, v in net.state_dict().items() if not k.startswith("norm")}
    save_tensors(place / "layers.safetensors", layers)
    for name, batches, args in (("both", "both", ("--accumulate=1",)),
                                ("ranks", "halves", ("--accumulate=2", "-n", "2", "--log_noise_scale")),
                                ("zero", "halves", ("--accumulate=2", "-n", "2", "--zero=1"))):
        out = dlrun("g", "f32", "--norm=false", f"--replay={place / batches}.safetensors",
                    f"--global_batch_size={4 * EACH}", "--optimizer=sgd", "--lr=0.1",
                    f"--init_weights={place / 'layers.safetensors'}", f"--save_weights={place / name}.w", *args)
        noise = json.loads(next(line for line in out.splitlines() if line.startswith('{"step"'))).get("noise_scale")
        if name == "ranks":
            net.norm = nn.Identity()
            parts = [torch.cat([g.flatten() for g in torch.autograd.grad(
                nn.functional.mse_loss(net(x[i]), t[i]), net.parameters())]) for i in range(4)]
            small, big = sum(g.square().sum() for g in parts) / 4, (sum(parts) / 4).square().sum()
            ratio = noise / (EACH * (small - big) / (1 - 1 / 4) / ((4 * big - small) / 3)).item()
            check(abs(ratio - 1) < 1e-4, f"two ranks with two batches have the noise scale of four parts: {ratio}")
    for name in "ranks", "zero":
        a, b = (load_tensors(place / f"{n}.w") for n in ("both", name))
        worst = max(relative(a[k], b[k]) for k in a)
        check(worst < 1e-6, f"two ranks with two batches each ({name}) are one with all samples: {worst:.1e}")
    text = place.run("dlc", "compile", place / "f32.dl", f"--yaml_config={place / 'c.yaml'}", "--norm=false",
                     "--accumulate=2", "--ranks=2", "--global_batch_size=8", "--dump-after=optimizer")
    first, last = (text.split(f"graph @{name}")[1].split("graph @")[0] for name in ("accumulate", "train"))
    check("all_reduce" not in first and "all_reduce" in last, "ranks exchange gradients in a step's last batch alone")

    # refused
    few = "--Nsamples=8", "--accumulate=3", f"--local_batch_size={EACH}"
    log = dlrun("few", "f32", *common[:1], *few, "--Nsamples_val=8", "--num_epochs=1", status=2)
    check("--accumulate=2" in log, "an epoch of fewer batches than a step is refused")
    dlrun("few", "f32", *common[:1], *few, "--Nsamples_val=8", "--num_epochs=1", "--accumulate=2")
    log = dlrun("few", "f32", *common[:1], "--global_batch_size=10", "--accumulate=4", status=2)
    check("a multiple of 4" in log, "a batch that cannot be shared is refused")
    args = place / "f32.dl", f"--yaml_config={place / 'c.yaml'}", "--local_batch_size=4"
    # The batches of a step are one batch here, so that its mean is that batch's. A GPU starts steps ahead, so that
    # another number of them, each of which changes the loss by less than 1e-3, has come before.
    for device, most in ("cpu", 1e-4), ("cuda:emulated", 5e-3):
        one, two = (json.loads(place.run("dlc", "bench", *args, "--norm=false", "--json", "--steps=3",
                                         f"--device={device}", f"--accumulate={n}")) for n in (1, 2))
        check(two["accumulate"] == 2 and 1.5 < two["flops"] / one["flops"] < 2.2
              and abs(two["loss"] / one["loss"] - 1) < most
              and abs(two["samples_per_s"] * two["step_ms"] / 8000 - 1) < 0.05, f"dlc bench {device}: {one} {two}")
    for command, *batch in (("verify", args[-1]), ("estimate-scaling", args[-1]),
                            ("simulate-ranks", "--ranks=2", "--global_batch_size=8")):
        log = place.run("dlc", command, *args[:2], *batch, "--accumulate=2", status=2)
        check("--accumulate=1" in log, f"dlc {command} refuses several batches")
    finish()


main(*sys.argv[1:])
