#!/usr/bin/env python3
"""Courses of the learning rate from the command line against torch.optim.lr_scheduler, over 200 steps of 20 epochs; a
run that is stopped in the middle and gone on with has the same bits. tests/unit/test_optimizers.c holds the formulas
step by step.

oracle_schedules.py BUILD [OPTION...]
"""
import json
import sys

from oracle_tools import Workplace, check, finish, save_tensors, torch
from torch.optim import lr_scheduler as of

EPOCHS, STEPS = 20, 10  # of an epoch
LR = 0.03

# lr_schedule; PyTorch's scheduler; whether it steps each epoch
COURSES = {
    "{name: step, step_size: 7, gamma: 0.3}": (lambda o: of.StepLR(o, 7, 0.3), True),
    "{name: step, step_size: 33, unit: step}": (lambda o: of.StepLR(o, 33), False),
    "{name: multistep, milestones: [3, 11, 12], gamma: 0.5}": (lambda o: of.MultiStepLR(o, [3, 11, 12], 0.5), True),
    "exponential": (lambda o: of.ExponentialLR(o, 0.95), True),
    # 1.13 has no PolynomialLR
    "{name: polynomial, power: 2}": (lambda o: of.LambdaLR(o, lambda i: (1 - i / 200)**2), False),
    "{name: linear, start_factor: 0.25, end_factor: 0.9, total_iters: 90}": (lambda o: of.LinearLR(o, 0.25, 0.9, 90),
                                                                             False),
    "linear": (lambda o: of.LambdaLR(o, lambda i: 1 - i / 200), False),
    "onecycle": (lambda o: of.OneCycleLR(o, LR, total_steps=200, cycle_momentum=False), False),
    "{name: onecycle, max_lr: 0.2, pct_start: 0.4, anneal_strategy: linear, three_phase: true, div_factor: 10, "
    "final_div_factor: 30}": (
        lambda o: of.OneCycleLR(o, 0.2, total_steps=200, pct_start=0.4, anneal_strategy="linear", three_phase=True,
                                div_factor=10, final_div_factor=30, cycle_momentum=False), False),
    "{name: warm_restarts, T_0: 3, T_mult: 2, eta_min: 0.001}": (
        lambda o: of.CosineAnnealingWarmRestarts(o, 3, 2, 0.001), True),
    "{name: cyclic, base_lr: 0.01, max_lr: 0.1, step_size_up: 17, step_size_down: 9, mode: triangular2}": (
        lambda o: of.CyclicLR(o, 0.01, 0.1, 17, 9, mode="triangular2", cycle_momentum=False), False),
    "{name: cyclic, base_lr: 0.01, max_lr: 0.1, step_size_up: 31, mode: exp_range, gamma: 0.99}": (
        lambda o: of.CyclicLR(o, 0.01, 0.1, 31, mode="exp_range", gamma=0.99, cycle_momentum=False), False),
    "{name: wsd, decay_steps: 50}": (lambda o: of.LambdaLR(o, lambda i: min(1, (200 - i) / 50)), False),
    "[{name: linear, start_factor: 0.1, end_factor: 1, length: 40}, {name: constant, length: 60}, {name: cosine, "
    "eta_min: 0.002}]": (lambda o: of.SequentialLR(o, [
        of.LinearLR(o, 0.1, 1, 40),
        of.ConstantLR(o, 1, 1), of.CosineAnnealingLR(o, 100, 0.002)
    ], [40, 100]), False),
}
MODEL = """model M():
    input x: f32[N, C=3]
    target t: f32[N, K=1]
    y = x |> linear(1) @head as [N, K]
    output y
    loss = mse_loss(y, t)
"""


def main(build, *_):
    place = Workplace(build)
    (place / "m.dl").write_text(MODEL)
    (place / "c.yaml").write_text("base: {}\n")
    common = [place / "m.dl", f"--yaml_config={place / 'c.yaml'}", "--data_loader_config=synthetic",
              "--local_batch_size=2", "--Nsamples=20",
              "--Nsamples_val=2", f"--num_epochs={EPOCHS}", f"--lr={LR}", "--optimizer=sgd"]
    worst = 0
    for k, (course, (schedule, by_epochs)) in enumerate(COURSES.items()):
        ends = []
        for part in ("whole", "parts"):
            at = place / f"{k}{part}"
            run = [*common, f"--lr_schedule={course}", f"--expdir={at}"]
            if part == "parts":
                place.run("dlrun", *run, "--stop_after=93", status=75)
                run.append("--resume=true")
            place.run("dlrun", *run)
            ends.append({p.name: p.read_bytes() for p in at.rglob("last/*.safetensors")})
        check(len(ends[0]) == 2 and ends[0] == ends[1], f"{course}: stopped and gone on with, the same bits")
        lines = [json.loads(line)
                 for line in next((place / f"{k}whole").rglob("metrics.jsonl")).read_text().splitlines()]
        got = [line["Learning Rate"] for line in lines if "Learning Rate" in line]
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
        rates, want = schedule(optimizer), []
        for step in range(EPOCHS * STEPS):
            rate = optimizer.param_groups[0]["lr"]
            optimizer.step()
            if (step + 1) % STEPS == 0:
                want.append(rate)
            if not by_epochs or (step + 1) % STEPS == 0:
                if step + 1 < EPOCHS * STEPS:
                    rates.step()
        worst = max((abs(a - b) / max(abs(b), 1e-12) for a, b in zip(got, want)), default=1)
        check(len(got) == EPOCHS and worst < 1e-6,
              f"{course}: rates of {len(got)} epochs, worst {worst:.1e} relative (at most 1e-6): {got} {want}"
              if worst >= 1e-6 else f"{course}: worst {worst:.1e}")
    # plateau: of a rate of 0 the loss stays, so each epoch after the first is without improvement
    log = place.run("dlrun", *common, "--lr=1e-30", "--lr_schedule={name: plateau, patience: 2, factor: 0.5, eps: 0}",
                    f"--expdir={place / 'plateau'}")
    check(log.count("Learning rate reduced") == 6,
          f"plateau: 19 epochs without improvement, patience 2: {log.count('Learning rate reduced')} of 6")
    log = place.run("dlrun", *common, "--lr_schedule={name: cosine, T_max: 50}", f"--expdir={place / 'short'}")
    check("the cosine is shorter than the run: after step 50 of 200 the learning rate stays at 0" in log,
          "a short cosine is told")
    log = place.run("dlrun", *common, "--scheduler=cosine", "--max_cosine_lr_epochs=5", f"--expdir={place / 'short2'}")
    check("the cosine is shorter than the run: after epoch 5 of 20 the learning rate rises again" in log,
          "so is one of epochs")
    log = place.run("dlrun", *common, "--lr_schedule=onecycle", f"--expdir={place / 'none'}")
    check("shorter than the run" not in log, "one of the run's length is not")
    finish()


main(*sys.argv[1:])
