#!/usr/bin/env python3
"""Numbers at float32's limits, next to PyTorch: clipping by a norm whose squares overflow or underflow, std of
tiny and huge values, statistics of one value, warnings that nobody's settings call for, and the errors of weight
gradients of convolutions.

    oracle_numbers.py BUILD
"""
import copy
import json
import re
import sys

from oracle_tools import np, Workplace, check, finish, load_tensors, relative, save_tensors, torch

LINEAR = """model Clip():
    input x: f32[N, C=4]
    param w: [C=4] ~ normal(0, 1)
    param v: [C=4] ~ normal(0, 1)
    y = x * w
    output y
    loss = sum(y * 0.5) + sum(v**2)
"""
ROOT = LINEAR.replace("y * 0.5", "sqrt(y)")
SCALED = """model Scaled():
    input x: f32[N, C=8]
    param s: [C=8] ~ normal(0, 1)
    output x
    loss = sum(std(x * s, over=C) / {0})
"""
BATCH = """model One():
    input x: f32[N, C=8]
    target t: f32[N, K=2]
    y = x |> linear(16) @a |> batch_norm @bn |> linear(2) @b as [N, K]
    output y
    loss = mse_loss(y, t)
"""
GROUPS = BATCH.replace("batch_norm @bn", "{}")
WINDOWS = """model Windows():
    input x: f32[N, C=24, {axes}]
    y = x |> conv(64, 3, pad=1) @a |> tanh |> conv(40, 3, pad=1) @b
    output y
    loss = mean(y**2)
"""
STEP = ["--optimizer=sgd", "--lr=0.5", "--lr_schedule=none"]


def write(place, text, name):
    path = place / f"{name}.dl"
    path.write_text(text)
    return path


def clips(place):
    """A step with clipping, and log_norms, is torch.nn.utils.clip_grad_norm_'s in float64, whatever the gradients'
    size."""
    path = write(place, LINEAR, "clip")
    for size in (1e-30, 1e-20, 1.0, 1e20, 1e30):
        x = torch.arange(1, 9).view(2, 4) * torch.tensor(size)
        w = {"w": torch.arange(4) / 3 + 1, "v": torch.zeros(4)}
        save_tensors(place / "x.st", {"x.0": x.float()}), save_tensors(place / "w.st", w)
        limit = min(size, 1.0)
        out = place.run("dlrun", path, "--local_batch_size=2", f"--replay={place / 'x.st'}",
                        f"--init_weights={place / 'w.st'}", *STEP, "--log_norms",
                        f"--clip_grad_norm={limit}", f"--expdir={place / 'clip'}", f"--save_weights={place / 'end.st'}",
                        f"--save_grads={place / 'g.st'}")
        line = next(json.loads(row) for row in out.splitlines() if row.startswith("{"))
        gradient = x.double().sum(0) * 0.5
        norm = gradient.norm()
        step = gradient * min(1.0, limit / (norm.item() + 1e-6))
        end = load_tensors(place / "end.st")["w"]
        check(relative(end, w["w"].double() - 0.5 * step) < 2e-7,
              f"gradients of {size:g}: the step is {(w['w'] - end).tolist()}")
        check(abs(line["grad_norm"] / norm.item() - 1) < 1e-6,
              f"gradients of {size:g}: grad_norm {line['grad_norm']:g}")
        check(relative(load_tensors(place / "g.st")["w"], gradient) < 1e-6,
              f"gradients of {size:g}: as they are before clipping")
    # a loss that is finite, of which a gradient is not, or the norm even in f64; of the first step only: x is 0 in the
    # second
    for what, text, x, w in (("an infinite gradient", ROOT, torch.ones(1, 4), torch.zeros(4)),
                             ("a norm beyond f64",
                              LINEAR.replace("f32[N", "f64[N").replace("param w: [", "param w: f64["),
                              torch.full((1, 4), 1e200, dtype=torch.double), torch.zeros(4).double())):
        path = write(place, text, "beyond")
        save_tensors(place / "x.st",
                     {"x.0": x, "x.1": 0 * x, "x.2": 0 * x}), save_tensors(place / "w.st",
                                                                           {"w": w, "v": torch.zeros(4)})
        out = place.run("dlrun", path, "--local_batch_size=1", f"--replay={place / 'x.st'}",
                        f"--init_weights={place / 'w.st'}", *STEP,
                        "--clip_grad_norm=1", f"--expdir={place / 'clip'}", status=7)
        check("not finite" in out, f"{what} ends the run: {out.splitlines()[-1]}")


def scales(place):
    """std, forwards and backwards, over float32's range."""
    torch.manual_seed(4)
    base, w = torch.randn(3, 8) + 2, {"s": torch.randn(8) + 3}
    for size in (1e-37, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e36):
        path = write(place, SCALED.format(f"{size:g}"), f"scaled{size:g}")
        x = (base.double() * size).float()
        save_tensors(place / "x.st", {"x.0": x}), save_tensors(place / "w.st", w)
        out = place.run("dlrun", path, "--local_batch_size=3", f"--replay={place / 'x.st'}",
                        f"--init_weights={place / 'w.st'}", *STEP,
                        f"--expdir={place / 'scaled'}", f"--save_grads={place / 'g.st'}")
        loss = next(json.loads(row)["loss"] for row in out.splitlines() if row.startswith("{"))
        x, p = x.double(), {k: v.double().requires_grad_() for k, v in w.items()}
        want = (x * p["s"]).std(1, unbiased=False).sum() / size
        want.backward()
        check(abs(loss / want.item() - 1) < 1e-6, f"values of {size:g}: loss {loss:.7g}, {want.item():.7g}")
        for k, v in load_tensors(place / "g.st").items():
            off = relative(v, p[k].grad)
            check(off < 2e-6, f"values of {size:g}: the gradient of {k} {off:.1e}")


def one_value(place):
    """A batch norm in training that has one value a channel is refused, as by PyTorch; predictions of one sample are
    not."""
    path = write(place, BATCH, "one")
    for what, args in (("dlc", ["check"]), ("dlc", ["compile"]),
                       ("dlrun", ["--data_loader_config=synthetic", f"--expdir={place / 'refused'}"])):
        first = args[:1] if what == "dlc" else []
        out = place.run(what, *first, path, "--local_batch_size=1", *args[len(first):], status=3)
        check(re.search(r"one\.dl:4:\d+: error: batch_norm divides by the deviation of one value", out)
              and "DL-E0805" in out, f"{what} {first}: {out[-300:]}")
    out = place.run("dlc", "compile", path, "--local_batch_size=1", "--ranks=2", status=3)
    check("sync_batch_norm" in out, "of ranks that have a sample each: what helps is named")
    place.run("dlc", "compile", path, "--local_batch_size=1", "--ranks=2", "--sync_batch_norm")
    place.run("dlc", "check", path, "--local_batch_size=2")
    for norm, status, said in (("instance_norm", 3, "DL-E0805"), ("group_norm(16)", 0, "DL-W0706"),
                               ("group_norm(8)", 0, None)):
        out = place.run("dlc", "check", write(place, GROUPS.format(norm), "groups"), "--local_batch_size=4",
                        status=status)
        check(said in out if said else "DL-" not in out, f"{norm} of 16 channels without positions: {out[:200]}")
    data = {"x": torch.randn(12, 8), "t": torch.randn(12, 2)}
    for k, v in data.items():
        np.save(place / f"{k}.npy", v.numpy())
    (place / "one.yaml").write_text(f"base: {{local_batch_size: 4, num_epochs: 1, expdir: {place / 'run'}, data: "
                                    f"{{inputs: {{x: {place / 'x.npy'}}}, "
                                    f"targets: {{t: {place / 't.npy'}}}, split: {{valid: 0.5}}}}}}\n")
    for optimizer in ("adam", "sgd", "nadam", "adadelta"):
        place.run("dlrun", path, f"--yaml_config={place / 'one.yaml'}", f"--optimizer={optimizer}",
                  f"--run_num={optimizer}")
        run = next((place / "run").rglob(optimizer))
        out = place.run("dlrun", "predict", run, place / "x.npy", "-o", place / "y.npy")
        check("warning" not in out,
              f"predictions of a run of {optimizer} by a model with a batch norm, without a word: {out}")
    out = place.run("dlrun", path, f"--yaml_config={place / 'one.yaml'}", "--nadam_momentum_decay=0.1",
                    "--run_num=told")
    check(out.count("nadam_momentum_decay means nothing to the optimizer adam") == 1,
          "an option of another optimiser that is given is told")


def windows(place):
    """Weight gradients by Winograd's transforms and directly: errors from float64 next to PyTorch's own."""
    for axes, size, conv, last in (("H=31, W=26", (31, 26), torch.nn.Conv2d, torch.channels_last),
                                   ("D=6, H=17, W=18", (6, 17, 18), torch.nn.Conv3d, torch.channels_last_3d)):
        torch.manual_seed(6)
        path = write(place, WINDOWS.format(axes=axes), f"windows{len(size)}")
        net = torch.nn.ModuleDict({"a": conv(24, 64, 3, padding=1), "b": conv(64, 40, 3, padding=1)})
        x = torch.randn(4, 24, *size)
        save_tensors(place / "x.st", {"x.0": x})
        save_tensors(place / "w.st", {k: v.detach().clone() for k, v in net.named_parameters()})

        def gradients(dtype, order=torch.contiguous_format):
            other = copy.deepcopy(net).to(dtype).to(memory_format=order)
            of = x.to(dtype).to(memory_format=order)
            (other["b"](torch.tanh(other["a"](of)))**2).mean().backward()
            return {f"{k}.weight": m.weight.grad for k, m in other.items()}

        want, ours, rows = gradients(torch.double), gradients(torch.float), gradients(torch.float, last)
        for key in "auto", "off":
            table = json.loads(place.run("dlc", "compile", path, "--local_batch_size=4", "--json",
                                         f"--winograd={key}").splitlines()[-1])["kernel_table"]
            named = [k["name"] for k in table if k["variant"] == "winograd 2x2" and k["name"].startswith("train")]
            check(len(named) == (5 if key == "auto" else 0), f"{len(size)}-D, winograd: {key}: {named}")
            place.run("dlrun", path, "--local_batch_size=4", f"--replay={place / 'x.st'}",
                      f"--init_weights={place / 'w.st'}", *STEP, f"--winograd={key}", f"--expdir={place / 'windows'}",
                      f"--save_grads={place / 'g.st'}")
            got = load_tensors(place / "g.st")
            for name, exact in want.items():
                error = relative(got[name], exact)
                theirs = max(relative(ours[name], exact), relative(rows[name], exact))
                check(0 < error <= 1.5 * theirs,
                      f"{len(size)}-D, winograd: {key}: {name}: {error:.2e} from float64, PyTorch {theirs:.2e}")


def main(build):
    place = Workplace(build)
    clips(place)
    scales(place)
    one_value(place)
    windows(place)
    finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
