#!/usr/bin/env python3
"""Simulations in time: samples held against numpy; no pair crosses from one simulation into another.

check_trajectories.py BUILD

Every number says its simulation and its time.
"""
import re
import shutil
import sys

from checks import check, finish
from datasets import BUILD, config, faults, model, run, samples

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

random = np.random.default_rng(7)
S, T, H, W = 6, 9, 3, 4
u = (np.arange(S)[:, None, None, None, None] * 1000 + np.arange(T)[:, None, None, None] * 10 +
     random.random((1, 1, 2, H, W))).astype("f4")
with h5py.File("all.h5", "w") as f:
    f["u"], f["last"] = u, np.moveaxis(u, 2, 4)
    f["a"], f["b"], f["mask"], f["viscosity"] = u[:, :, 0], u[:, :, 1], np.ones(
        (H, W), "f4"), np.arange(S * 2, dtype="f4").reshape(S, 2)
    f["time_first"] = u.swapaxes(0, 1)
for i in range(3):  # files of two simulations each, of different lengths
    with h5py.File(f"two{i}.h5", "w") as f:
        f["u"] = u[2 * i:2 * i + 2, :T - i]
for i in range(S):
    np.save(f"sim{i}.npy", u[i])
model("step",
      f"model Step():\n    input x: f32[N, C=2, H={H}, W={W}]\n    target t: f32[N, C=2, H={H}, W={W}]\n"
      "    y = x |> conv(2, 1) @c\n    output y\n    loss = mse_loss(y, t)\n")


def pairs(text, name="step", part="valid"):
    config(text)
    got = samples(name, part)
    check(not isinstance(got, str), f"{text}: {got}")
    return None if isinstance(got, str) else got


def held(got, sims, first, last, lead, what):
    """Samples of validation are all pairs of these simulations, in order."""
    want = [(s, t) for s in sims for t in range(first, last)]
    ok = got is not None and len(got["x"]) == len(want) and all(
        np.array_equal(x, u[s, t]) and np.array_equal(y, u[s, t + lead])
        for x, y, (s, t) in zip(got["x"], got["t"], want))
    check(ok, f"{what}: {None if got is None else got['x'][:, 0, 0, 0]}")


for source, sim, time in (("'all.h5:u'", 0, 1), ("{file: all.h5, array: time_first}", 1, 0),
                          ("{file: all.h5, array: last, axes: [sim, time, H, W, C]}", 0, 1),
                          ("{file: all.h5, array: [a, b]}", 0, 1)):
    for lead in (1, 3):
        got = pairs(f"trajectory: {{sim: {sim}, time: {time}, lead: {lead}}}\ninputs: {{x: {source}}}\n"
                    f"targets: {{t: {source}}}\nsplit: {{valid: 0.34}}")
        held(got, (4, 5), 0, T - lead, lead, f"{source}, lead {lead}")
got = pairs("trajectory: {time: 0, lead: 2}\ninputs: {x: 'sim*.npy'}\ntargets: {t: 'sim*.npy'}\nsplit: {valid: 0.34}")
held(got, (4, 5), 0, T - 2, 2, "a file for each simulation")
got = pairs("trajectory: {time: 0}\ninputs: {x: 'sim*.npy'}\ntargets: {t: 'sim*.npy'}\n"
            "split: {valid: [sim1.npy, sim3.npy]}")
held(got, (1, 3), 0, T - 1, 1, "by files")
with h5py.File("groups.h5", "w") as f:  # as PDEBench has them
    for i in range(S):
        f[f"{i:04}/data"], f[f"{i:04}/grid/x"] = np.moveaxis(u[i], 1, 3), np.arange(4)
GROUPS = "{file: groups.h5, array: '*/data', axes: [time, H, W, C]MORE}"
for more in ("", ", normalize: standardize"):
    source = GROUPS.replace("MORE", more)
    got = pairs(f"trajectory: {{time: 0, lead: 2}}\ninputs: {{x: {source}}}\ntargets: {{t: {source}}}\n"
                f"split: {{valid: 0.34}}")
    if more and got is not None:
        part = u[:4, :T - 2].astype("f8")
        mean, std = (f(part, (0, 1, 3, 4))[:, None, None] for f in (np.mean, np.std))
        got = {k: np.round(v * std + mean, 2) for k, v in got.items()}
        check(np.allclose(got["x"], u[4:, :T - 2].reshape(-1, 2, H, W), atol=0.02), "patterns, standardize")
    else:
        held(got, (4, 5), 0, T - 2, 2, "an array for each simulation")
config(f"trajectory: {{time: 0}}\ninputs: {{x: {GROUPS.replace('data', 'date').replace('MORE', '')}}}\n"
       f"targets: {{t: {GROUPS.replace('MORE', '')}}}\nsplit: {{valid: 0.34}}")
faults("step", "data.inputs.x: no array of groups.h5 fits the pattern '*/date'; it holds: 0000/data")
got = pairs("trajectory: {sim: 0, time: 1}\ninputs: {x: 'two*.h5:u'}\ntargets: {t: 'two*.h5:u'}\nsplit: {valid: 0.5}")
check(got is not None and [(int(x // 1000), int(x % 1000 // 10)) for x in got["x"][:, 0, 0, 0]] ==
      [(3, t) for t in range(7)] + [(s, t) for s in (4, 5) for t in range(6)], "files of different lengths")
check(got is not None and np.allclose(got["t"] - got["x"], 10, atol=0.01), "each pair is one step apart")
got = pairs("trajectory: {sim: 0, time: 1, lead: 1}\ninputs: {x: all.h5:u}\ntargets: {t: all.h5:u}\n"
            "split: {train: [0, 3], valid: [3, 5]}")
held(got, (3, 4), 0, T - 1, 1, "ranges are of simulations")
DATA = "trajectory: {sim: 0, time: 1}\ninputs: {x: all.h5:u}\ntargets: {t: all.h5:u}\nsplit: {valid: 0.34, shuffle: 3}"
train, valid = (pairs(DATA, part=part) for part in ("train", "valid"))
sims = [{int(x // 1000) for x in got["x"][:, 0, 0, 0]} if got is not None else {} for got in (train, valid)]
check(len(sims[0]) == 4 and len(sims[1]) == 2 and not sims[0] & sims[1] and sims[1] != {4, 5},
      f"simulations at random: {sims}")
check(train is not None and np.allclose(train["t"] - train["x"], 10, atol=0.01) and len(train["x"]) == 4 * (T - 1),
      "pairs of training")

# ---- history, along T or the channels, with a stride; several times of the target ----

model("history", f"""model History():
    input x: f32[N, T=3, C=2, H={H}, W={W}]
    input z: f32[N, P=2]
    input m: f32[N, H={H}, W={W}]
    target t: f32[N, T=2, C=2, H={H}, W={W}]
    y = mean(x, over=T) |> conv(2, 1) @c
    output y
    loss = mean((t[T=0] - y)**2) + mean(z) * 0 + mean(m) * 0
""")
model("stacked",
      f"model Stacked():\n    input x: f32[N, C=6, H={H}, W={W}]\n    target t: f32[N, C=2, H={H}, W={W}]\n"
      "    y = x |> conv(2, 1) @c\n    output y\n"
      "    loss = mse_loss(y, t)\n")
want = [(s, t) for s in (4, 5) for t in range(4, T - 4)]
for source in ("all.h5:u", "{file: all.h5, array: [a, b]}", "{file: all.h5, array: last, axes: [sim, time, H, W, C]}"):
    got = pairs(f"trajectory: {{sim: 0, time: 1, lead: 1, history: 3, stride: 2}}\n"
                f"inputs: {{x: {source}, z: all.h5:viscosity, m: all.h5:mask}}\n"
                f"targets: {{t: {source}}}\nsplit: {{valid: 0.34}}", "history")
    ok = got is not None and len(got["x"]) == len(want) and all(
        np.array_equal(x, u[s, [t - 4, t - 2, t]]) and np.array_equal(y, u[s, [t + 2, t + 4]])
        and np.array_equal(z, [2 * s, 2 * s + 1])
        for x, y, z, (s, t) in zip(got["x"], got["t"], got["z"], want))
    check(ok,
          f"history along T, {source}: {None if got is None else (got['x'][:, :, 0, 0, 0], got['t'][:, :, 0, 0, 0])}")
    want2 = [(s, t) for s in (4, 5) for t in range(2, T - 1)]
    got = pairs(f"trajectory: {{sim: 0, time: 1, history: 3}}\ninputs: {{x: {source}}}\ntargets: {{t: {source}}}\n"
                f"split: {{valid: 0.34}}", "stacked")
    ok = got is not None and len(got["x"]) == len(want2) and all(
        np.array_equal(x, u[s, t - 2:t + 1].reshape(6, H, W)) and np.array_equal(y, u[s, t + 1])
        for x, y, (s, t) in zip(got["x"], got["t"], want2))
    check(ok, f"history as channels, {source}: {None if got is None else got['x'][:, :, 0, 0]}")
scaled = "{file: all.h5, array: u, normalize: standardize}"
got = pairs(f"trajectory: {{sim: 0, time: 1, history: 3}}\ninputs: {{x: {scaled}}}\ntargets: {{t: {scaled}}}\n"
            f"split: {{valid: 0.34}}", "stacked")
part = u[:4, 2:T - 1].astype("f8")  # the indices of samples
mean, std = part.mean((0, 1, 3, 4)), part.std((0, 1, 3, 4))
flat = np.array([(u[s, t - 2:t + 1] - mean[:, None, None]) / std[:, None, None] for s, t in want2]).reshape(-1, 6, H, W)
check(got is not None and np.allclose(got["x"], flat, atol=1e-5), "statistics of a history are those of its array")

# ---- predictions: all times of all simulations in order; the truth of a simulation's end is not the next one's begin
# ----

model("same",
      f"model Same():\n    input x: f32[N, C=2, H={H}, W={W}]\n    target t: f32[N, C=2, H={H}, W={W}]\n"
      "    param p: [C=2] = 0\n    y = x + p\n    output y\n"
      "    loss = mse_loss(y, t)\n")
for source, file in (("{file: all.h5, array: u, normalize: standardize}", "all.h5:u"),
                     ("{file: all.h5, array: [a, b]}", "all.h5"),
                     ("{file: all.h5, array: last, axes: [sim, time, H, W, C]}", "all.h5:last")):
    config(f"trajectory: {{sim: 0, time: 1, lead: 2}}\ninputs: {{x: {source}}}\ntargets: {{t: {source}}}\n"
           f"split: {{valid: 0.34}}", lr=0.0, num_epochs=1)
    done = run(BUILD + "/cli/dlrun", "same.dl", "--yaml_config=c.yaml", "--expdir=runs_same")
    check(done.returncode == 0, f"{source}: {done.stderr.decode()[-500:]}")
    done = run(BUILD + "/cli/dlrun", "predict", "runs_same/same-default/1GPU/00", file, "-o", "p.npy", "--metrics")
    got = np.load("p.npy") if done.returncode == 0 else np.zeros(1)
    check(got.shape == (S * T, 2, H, W) and np.allclose(got, u.reshape(-1, 2, H, W), rtol=1e-5, atol=1e-3),
          f"{source}: {done.stderr.decode()}")
    rmse = [float(r) for r in re.search(r"RMSE (.*)", done.stdout.decode() + "RMSE 9").group(1).split()]
    loss = float(re.search(r"loss +(\d[-+.\de]*)", done.stdout.decode() + "loss 9").group(1))
    check(np.allclose(rmse, 20, rtol=1e-4), f"two steps of 10 apart, and no simulation: {done.stdout.decode()}")
    check("normalize" in source or abs(loss / 400 - 1) < 1e-4, f"its loss: {loss}")
    shutil.rmtree("runs_same", ignore_errors=True)
config("trajectory: {sim: 0, time: 1, history: 3}\ninputs: {x: all.h5:u}\ntargets: {t: all.h5:u}\nsplit: {valid: 0.34}",
       num_epochs=1)
done = run(BUILD + "/cli/dlrun", "stacked.dl", "--yaml_config=c.yaml", "--expdir=runs_stacked")
check(done.returncode == 0, done.stderr.decode()[-500:])
done = run(BUILD + "/cli/dlrun", "predict", "runs_stacked/stacked-default/1GPU/00", "all.h5:u", "-o", "p.npy")
check(done.returncode == 3 and b"'u' does not fit" in done.stderr, done.stderr)
np.save("stacked.npy", np.stack([u[0, t - 2:t + 1].reshape(6, H, W) for t in range(2, T)]))
done = run(BUILD + "/cli/dlrun", "predict", "runs_stacked/stacked-default/1GPU/00", "stacked.npy", "-o", "p.npy")
check(done.returncode == 0 and np.load("p.npy").shape == (T - 2, 2, H, W), done.stderr)

# ---- faults ----

base = "trajectory: {sim: 0, time: 1}\ninputs: {x: all.h5:u}\ntargets: {t: all.h5:u}\nsplit: {valid: 0.34}"
for text, want in [
        (base.replace("sim: 0, time: 1", "sim: 0"), "data.trajectory.time is missing: the number of the axis of times"),
        (base.replace("time: 1", "time: 0"), "data.trajectory: sim and time are one axis"),
        (base.replace("time: 1", "time: 9"),
         "data.trajectory.time must be the number of an axis of the arrays, from 0, not '9'"),
        (base.replace("time: 1", "time: 1, lead: -1"), "data.trajectory.lead must be an integer of at least 0"),
        (base.replace("time: 1", "time: 1, lag: 1"), "data.trajectory has no key 'lag'"),
        (base.replace("time: 1", "time: 1, lead: 9"), "no 10 samples in a row"),
        (base.replace("0.34", "0.05"), "0.05 of the 6 simulations is not one of them: take a larger share"),
        (base.replace("t: all.h5:u", "t: {file: all.h5, array: u, offset: 1}"),
         "lead says which time is whose target: data.targets.t.offset goes without it"),
        (base.replace("0.34", "0.34, gap: 3"), "data.split parts simulations, without axis and gap"),
        (base.replace("0.34", "0.34, group: all.h5:u"), "the simulations are the groups of data.split")]:
    config(text)
    faults("step", want)
config(base.replace("time: 1", "time: 1, history: 2") .replace("x: all.h5:u",
                                                               "x: all.h5:u, z: all.h5:viscosity, m: all.h5:mask"))
faults("history", "data.trajectory.history is 2, and the model's 'x' is f32[T=3, C=2, H=3, W=4]: T is the history")

finish()
