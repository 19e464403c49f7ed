#!/usr/bin/env python3
"""Dynamic loss scaling against torch.amp.GradScaler through the same sequence of overflows: scales, skipped steps,
losses, weights and running statistics; then what a resumed run makes of the scaler's state, and the fault at its floor.

oracle_scaler.py BUILD [OPTION...]
"""
import json
import math
import re
import shutil
import signal
import sys

from oracle_tools import Workplace, check, finish, load_tensors, np, relative, save_tensors, torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


class Restated:
    """torch.amp.GradScaler for a PyTorch that has none for CPUs; where there is one, that is the oracle."""

    def __init__(self, init_scale):
        self.factor, self.good, self.finite = torch.tensor(init_scale), 0, True

    def scale(self, loss):
        return loss * self.factor

    def unscale_(self, optimizer):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"]]
        self.finite = all(torch.isfinite(g).all() for g in grads)
        for g in grads:
            g.mul_(self.factor.double().reciprocal().float())

    def step(self, optimizer):
        if self.finite:
            optimizer.step()

    def update(self):
        self.good = self.good + 1 if self.finite else 0
        if not self.finite:
            self.factor = self.factor * 0.5
        elif self.good == 2000:
            self.good, self.factor = 0, self.factor * 2 if torch.isfinite(self.factor * 2) else self.factor

    def get_scale(self):
        return self.factor.item()


THEIRS = hasattr(torch.amp, "GradScaler") if hasattr(torch, "amp") else False


def new_scaler(init):
    return torch.amp.GradScaler("cpu", init_scale=init) if THEIRS else Restated(init)


# Models without contractions, all of whose ops fp16 leaves in float32: what is compared is the scaler alone.
class Plain(nn.Module):
    shapes = (3, 7), (3, 5)
    text = """
model Plain():
    input  x: f32[N, E=7]
    target t: f32[N, O=5]
    param first: [H=9, E=7] ~ normal(0, 0.3)
    param last: [O=5, H=9] ~ normal(0, 0.3)
    param bias: [O=5] = 0
    y = tanh(sum(x * first, over=E))
    y = sum(y * last, over=H) + bias
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.first, self.last = (nn.Parameter(0.3 * torch.randn(shape)) for shape in ((9, 7), (5, 9)))
        self.bias = nn.Parameter(torch.zeros(5))

    def forward(self, x):
        y = torch.tanh((x[:, None] * self.first).sum(2))
        return (y[:, None] * self.last).sum(2) + self.bias


class Normed(nn.Module):
    shapes = (3, 4, 6, 6), (3, 4, 6, 6)
    text = """
model Normed():
    input  x: f32[N, C=4, H=6, W=6]
    target t: f32[N, C=4, H, W]
    param scale: [C=4] = 1
    param shift: [C=4] = 0
    y = (x |> batch_norm @norm |> tanh) * scale + shift
    output y
    loss = mean((y - t)**2)
"""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        self.scale, self.shift = nn.Parameter(1 + 0.1 * torch.randn(4)), nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return torch.tanh(self.norm(x)) * self.scale[:, None, None] + self.shift[:, None, None]


def cosine(at, total):
    return 0.5 * (1 + math.cos(math.pi * at / total))


# Steps; the scale at first; what a batch's first target is at some steps; options; optimiser, schedule and bound of
# norms in PyTorch.
CASES = {
    "Adam, clipped, a cosine": (
        24, 2.0**126, {8: 1e36, 9: math.nan, 15: math.inf},
        ["--optimizer=adam", "--lr=3.1e-3", "--lr_schedule=cosine", "--warmup=5", "--clip_grad_norm=0.4"],
        lambda p: torch.optim.Adam(p, lr=3.1e-3), lambda o: LambdaLR(o, lambda i: min((i + 1) / 5, cosine(i, 24))),
        0.4),
    "AdamW": (
        24, 65536.0, {0: math.inf, 1: math.nan, 17: 1e38},
        ["--optimizer=adamw", "--lr=2.3e-3", "--weight_decay=0.3", "--lr_schedule=none"],
        lambda p: torch.optim.AdamW(p, lr=2.3e-3, weight_decay=0.3), lambda o: LambdaLR(o, lambda i: 1), 0),
    "SGD, momentum": (
        24, 1e38, {6: math.inf, 20: -1e37},
        ["--optimizer=sgd", "--lr=1.7e-2", "--momentum=0.8", "--lr_schedule=none"],
        lambda p: torch.optim.SGD(p, lr=1.7e-2, momentum=0.8), lambda o: LambdaLR(o, lambda i: 1), 0),
    "NAdam, whose momentum has a course": (
        24, 65536.0, {0: math.inf, 9: math.nan},
        ["--optimizer={name: NAdam, lr: 2.3e-3, momentum_decay: 0.1}", "--lr_schedule=none"],
        lambda p: torch.optim.NAdam(p, lr=2.3e-3, momentum_decay=0.1, foreach=True), lambda o: LambdaLR(o, lambda i: 1),
        0),
    "Adagrad, whose rate falls by its own count": (
        24, 65536.0, {0: math.inf, 9: math.nan},
        ["--optimizer={name: Adagrad, lr: 2.3e-2, lr_decay: 0.2, initial_accumulator_value: 0.01}",
         "--lr_schedule=none"],
        lambda p: torch.optim.Adagrad(p, lr=2.3e-2, lr_decay=0.2, initial_accumulator_value=0.01),
        lambda o: LambdaLR(o, lambda i: 1), 0),
    "2,000 good steps": (
        2020, 16384.0, {4: math.nan, 2007: math.inf},
        ["--optimizer=sgd", "--lr=1e-4", "--lr_schedule=none"],
        lambda p: torch.optim.SGD(p, lr=1e-4), lambda o: LambdaLR(o, lambda i: 1), 0),
    "a scale that cannot grow": (
        2006, 2.0**127, {},  # a loss so small that nothing overflows
        ["--optimizer=sgd", "--lr=1e-4", "--lr_schedule=none"],
        lambda p: torch.optim.SGD(p, lr=1e-4), lambda o: LambdaLR(o, lambda i: 1), 0),
}


def in_torch(model, batches, init, make, schedule, clip):
    optimizer = make(model.parameters())
    rates, scaler = schedule(optimizer), new_scaler(init)
    lines = []
    for x, t in batches:
        scale = torch.tensor(scaler.get_scale()).item()  # the first is not rounded yet
        optimizer.zero_grad()
        loss = ((model(x) - t)**2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        skipped = not all(torch.isfinite(p.grad).all() for p in model.parameters())
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        rates.step()
        lines.append((loss.item(), scale, skipped))
    return lines


def replay(place, path, batches, *options, status=0):
    save_tensors(place / "batches.safetensors", {f"{n}.{i}": v for i, b in enumerate(batches) for n, v in zip("xt", b)})
    output = place.run("dlrun", path, f"--yaml_config={place / 'models.yaml'}",
                       f"--local_batch_size={len(batches[0][0])}", "--amp_mode=fp16",
                       f"--expdir={place / 'runs'}", f"--replay={place / 'batches.safetensors'}", *options,
                       status=status)
    return output, [json.loads(line) for line in output.splitlines() if line.startswith("{") and '"step"' in line]


def compare(place, net, name, case):
    steps, init, faults, options, make, schedule, clip = case
    torch.manual_seed(11)
    model = net()
    save_tensors(place / "weights.safetensors", model.state_dict())
    batches = [[torch.randn(shape) for shape in net.shapes] for _ in range(steps)]
    if init == 2.0**127:
        for p in model.parameters():
            p.data.mul_(1e-3)
        save_tensors(place / "weights.safetensors", model.state_dict())
        batches = [[1e-3 * v for v in b] for b in batches]
    for step, value in faults.items():
        batches[step][1].view(-1)[0] = value
    path = place / f"{net.__name__.lower()}.dl"
    path.write_text(net.text.lstrip())
    _, lines = replay(place, path, batches, f"--loss_scale_init={init!r}",
                      f"--init_weights={place / 'weights.safetensors'}",
                      f"--save_weights={place / 'end.safetensors'}", *options)
    want = in_torch(model, batches, init, make, schedule, clip)
    name = f"{net.__name__}, {name}"
    check([line["loss_scale"] for line in lines] == [w[1] for w in want], f"{name}: the scales of {steps} steps")
    skipped = [i for i, w in enumerate(want) if w[2]]
    check([i for i, line in enumerate(lines) if line["skipped"]] == skipped and len(skipped) >= len(faults),
          f"{name}: skipped are the steps {skipped}")
    if steps >= 2000:
        grown = max(b[1] / a[1] for a, b in zip(want, want[1:]))
        check(grown == (2 if faults else 1), f"{name}: the scale grows {grown:g}-fold at most")
    worst = max(abs(line["loss"] - w[0]) / w[0] for line, w in zip(lines, want) if math.isfinite(w[0]))
    check(worst < 1e-4, f"{name}: losses, worst {worst:.1e} relative (at most 1e-4)")
    check(all(line["loss"] is None for line, w in zip(lines, want) if not math.isfinite(w[0])),
          f"{name}: others are null")
    end = load_tensors(place / "end.safetensors")
    errors = {k: relative(end[k].float(), v.float()) for k, v in model.state_dict().items() if k in end}
    worst = max(errors, key=errors.get)
    check(errors[worst] < 1e-4 and len(errors) >= 3,
          f"{name}: weights and statistics at the end, worst {errors[worst]:.1e} of {worst} (at most 1e-4)")


def gradients_are_unscaled(place):
    torch.manual_seed(5)
    model = Plain()
    save_tensors(place / "weights.safetensors", model.state_dict())
    path = place / "plain.dl"
    path.write_text(Plain.text.lstrip())
    x, t = (torch.randn(shape) for shape in Plain.shapes)
    ((model(x) - t)**2).mean().backward()
    replay(place, path, [[x, t]], f"--init_weights={place / 'weights.safetensors'}",
           f"--save_grads={place / 'grads.safetensors'}")
    grads = load_tensors(place / "grads.safetensors")
    worst = max(relative(grads[k], p.grad) for k, p in model.named_parameters())
    check(worst < 1e-5, f"--save_grads: unscaled, worst {worst:.1e} relative (at most 1e-5)")


def faults_at_the_floor(place):
    path = place / "plain.dl"
    batches = [[torch.randn(shape) for shape in Plain.shapes] for _ in range(40)]
    for b in batches:
        b[0][1, 2] = math.nan
    output, lines = replay(place, path, batches, status=7)
    # 65,536 halved thirty times is 2^-14
    check(len(lines) == 30 and lines[-1]["loss_scale"] == 2.0**-13, f"the floor is met after {len(lines)} steps")
    check("the input 'x', at [N=1, E=2]" in output and "bf16" in output,
          "and the message names the data's fault: " + output.strip()[-330:])
    path = place / "steep.dl"
    path.write_text(Plain.text.lstrip().replace("y = tanh(", "y = exp(1000*exp(").replace(
        "over=E))", "over=E)*0))*0.5").replace("Plain", "Steep"))
    batches = [[torch.ones(shape) for shape in Plain.shapes] for _ in range(40)]
    output, lines = replay(place, path, batches, status=7)
    check(len(lines) == 30 and "(" + str(path) + ":7)" in output, "or the op and its line: " + output.strip()[-330:])


def faults_without_a_scaler(place):
    """float32 and bf16: losses that are not finite, where they were told already, say what is not."""
    batches = [[torch.randn(shape) for shape in Plain.shapes]]
    batches[0][0][2, 6] = math.nan
    output, _ = replay(place, place / "plain.dl", batches, "--amp_mode=none", status=7)
    check("loss is not finite at step 1. Step 1 repeated: not finite is the input 'x', at [N=2, E=6]" in output,
          "float32: " + output.strip()[-200:])
    output = place.run("dlrun", place / "steep.dl", f"--yaml_config={place / 'models.yaml'}",
                       "--data_loader_config=synthetic", "--local_batch_size=4",
                       "--Nsamples=8", "--Nsamples_val=4", f"--expdir={place / 'runs'}", status=7)
    check(re.search(r"initial loss is (nan|infinite).*The first value that is not finite is made by '\w+' "
                    r"\(\S+steep\.dl:7\)", output),
          "the untrained model: " + output.strip()[-330:])


def options_of_run(place, number, *options):
    """Of a run on noise, whose losses are large."""
    path = place / "large.dl"
    path.write_text(Plain.text.lstrip().replace("loss = ", "loss = 1e6*").replace("Plain", "Large"))
    return [path, f"--yaml_config={place / 'models.yaml'}", "--data_loader_config=synthetic", "--local_batch_size=4",
            "--Nsamples=16000",
            "--Nsamples_val=4", "--lr_schedule=none", "--lr=1e-3", f"--run_dir={place / 'trained'}/{number}", *options]


def newest(place, number):
    """The bytes of a run's newest checkpoint."""
    return {p.name: p.read_bytes()
            for p in (place / "trained" / str(number) / "checkpoints" / "last").glob("*.safetensors")}


def train(place, number, *options):
    """Its log, and its newest checkpoint."""
    return place.run("dlrun", *options_of_run(place, number, *options)), newest(place, number)


def interrupt(place, number, *options):
    """Stops a run within its first epoch; how many steps it has made."""
    process = place.start("dlrun", *options_of_run(place, number, *options))
    for line in process.stdout:
        if "Starting Training Loop" in line:
            process.send_signal(signal.SIGUSR1)
    check(process.wait() == 75, "a run is stopped in the middle of an epoch")
    return json.loads((place / "trained" / str(number) / "checkpoints" / "last" / "state.json").read_text())["position"]


def resumed(place):
    fp16 = ["--amp_mode=fp16", "--loss_scale_init=3e38", "--log_norms"]
    _, whole = train(place, 0, *fp16, "--num_epochs=2")
    steps = interrupt(place, 1, *fp16, "--num_epochs=2")
    check(0 < steps < 4000, f"after {steps} of its 4,000 steps")
    _, parts = train(place, 1, *fp16, "--num_epochs=2", "--resume")
    check(set(whole) == {"model.safetensors", "optimizer.safetensors", "scaler.safetensors"},
          f"a checkpoint has {sorted(whole)}")
    check(whole == parts, "a run that was resumed ends with the same bits")
    scaler = load_tensors(place / "trained/0/checkpoints/last/scaler.safetensors")
    skipped = int(scaler["scaler.skipped"])
    check(skipped > 0 and int(scaler["scaler.good"]) < 2000, f"of its 8,000 steps {skipped} were skipped")
    # whatever the steps, the scale is where it began but for powers of two
    check(math.log2(float(torch.tensor(3e38)) / float(scaler["scaler.scale"])) % 1 == 0,
          "and the scale was halved and doubled")
    points = [[json.loads(line) for line in open(place / "trained" / k / "metrics.jsonl")] for k in "01"]
    scales = [[p.get("loss_scale") for p in of] for of in points]
    check(scales[0][-1] is not None and scales[0][-1] == scales[1][-1], f"metrics.jsonl has loss_scale: {scales[0]}")
    check(all(math.isfinite(p["Loss/train"] if "Loss/train" in p else p["train_loss"]) for of in points for p in of),
          "and finite losses")
    log, parts = train(place, 1, "--amp_mode=none", "--num_epochs=3", "--resume")
    check("loss scaler is dropped" in log and "scaler.safetensors" not in parts,
          "without scaling it is dropped, which the log tells")
    log, parts = train(place, 1, "--amp_mode=fp16", "--Nsamples=16", "--num_epochs=4", "--resume",
                       "--loss_scale_init=1024")
    check("it begins at 1024" in log, "a run that was not scaled goes on with the first scale")
    scaler = load_tensors(place / "trained/1/checkpoints/last/scaler.safetensors")
    check(float(scaler["scaler.scale"]) == 1024 and int(scaler["scaler.good"]) == 4, "and counts from there")


def losses_of_skipped_steps(place):
    """Steps that are skipped with an infinite loss are left out of the epoch's mean, which is 1 in each other step; as
    well in a run that was stopped among them and resumed."""
    t = torch.ones(20, 3)
    t[6:10] = 1e38
    for name, values in ("x", torch.randn(20, 3)), ("t", t):
        np.save(place / f"{name}.npy", values.numpy())
    (place / "left_out.dl").write_text("model LeftOut():\n    input x: f32[N, E=3]\n    target t: f32[N, E=3]\n"
                                       "    param w: [E=3] = 0\n    y = x * w\n    output y\n"
                                       "    loss = mean((y - t)**2)\n")
    (place / "left_out.yaml").write_text(
        "base: {local_batch_size: 2, num_epochs: 1, lr: 0, lr_schedule: none, data: "
        f"{{inputs: {{x: {place / 'x.npy'}}}, targets: {{t: {place / 't.npy'}}}, split: {{valid: 0.2}}}}}}\n")

    def train_losses(name, *options):
        for rest, status in options:
            place.run("dlrun", place / "left_out.dl", f"--yaml_config={place / 'left_out.yaml'}", "--amp_mode=fp16",
                      f"--run_dir={place / name}", *rest, status=status)
        points = [json.loads(line) for line in open(place / name / "metrics.jsonl")]
        return [p["Loss/train"] for p in points if "Loss/train" in p]

    whole = train_losses("left_out", ([], 0))
    parts = train_losses("left_out_parts", (["--stop_after=6"], 75), (["--resume"], 0))
    file = load_tensors(place / "left_out_parts/checkpoints/last/scaler.safetensors")
    check(1 < int(file["scaler.skipped"]) < 5 and whole == parts == [1, 1],
          f"{file['scaler.skipped']} of 8 steps skipped, mean losses {whole}, resumed {parts}")


def with_torch_files(place):
    """PyTorch's file has the steps that Adam took; gone on from there, the others were skipped."""
    fp16 = ["--amp_mode=fp16", "--loss_scale_init=3e38", "--torch_checkpoints=true", "--Nsamples=160"]
    train(place, 2, *fp16, "--num_epochs=1")
    folder = place / "trained/2/checkpoints"
    skipped = int(load_tensors(folder / "last/scaler.safetensors")["scaler.skipped"])
    file = torch.load(folder / "ckpt.tar")
    steps = {int(s["step"]) for s in file["optimizer_state_dict"]["state"].values()}
    check(skipped > 0 and file["iters"] == 40 and steps == {40 - skipped},
          f"ckpt.tar has {steps} of 40 steps, {skipped} were skipped")
    for path in folder.iterdir():
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    (folder.parent / "metrics.jsonl").unlink()
    train(place, 2, *fp16, "--num_epochs=2", "--resume", "--loss_scale_init=64")
    after = load_tensors(folder / "last/scaler.safetensors")
    step = int(load_tensors(folder / "last/optimizer.safetensors")["optimizer.step"])
    check(step == 80 and int(after["scaler.skipped"]) == skipped and float(after["scaler.scale"]) == 64,
          "and a run goes on from there")


def main(build, *_):
    place = Workplace(build)
    (place / "models.yaml").write_text("base: {}\n")
    print("the oracle is", "torch.amp.GradScaler" if THEIRS else "a restatement of torch.amp.GradScaler", "of PyTorch",
          torch.__version__)
    for name, case in CASES.items():
        for net in (Plain, Normed):
            if case[0] < 100 and "whose" not in name or net is Plain:
                compare(place, net, name, case)
    gradients_are_unscaled(place)
    faults_at_the_floor(place)
    faults_without_a_scaler(place)
    resumed(place)
    losses_of_skipped_steps(place)
    with_torch_files(place)
    finish()


main(*sys.argv[1:])
