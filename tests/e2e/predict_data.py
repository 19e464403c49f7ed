"""Of oracle_predict.py: predictions from a run's directory and from data of one's own, and what is refused."""
import json
import os

from oracle_tools import check, np, torch
from predict_nets import Plane
from predict_runs import h5py, model_of, near, place, predict, result, whole, write
from torch import nn


def test_run():
    """From a run's directory, best and last, a checkpoint of it; less memory than training."""
    net = Plane()
    _, model = model_of(net, "plane")
    options = [place / "plane.dl", "--data_loader_config=synthetic", "--local_batch_size=1", "--Nsamples=2",
               "--Nsamples_val=2", "--lr_schedule=none",
               f"--expdir={place / 'runs'}", "--num_epochs=2"]
    place.run("dlrun", *options)
    trains = json.loads([line for line in place.run("dlrun", *options, "--dry_run", "--json").splitlines()
                         if line.startswith("{")][0])
    run = place / "runs/plane-base/1GPU/00"
    x = np.random.default_rng(6).standard_normal((3, 24, 36)).astype("f4")
    data = write("small.h5", x=x)
    got, how = result("best", run, data)
    check(how["peak_bytes"] < 0.6 * trains["peak_bytes"],
          f"{how['peak_bytes']} bytes to predict, {trains['peak_bytes']} to train")
    from oracle_tools import load_tensors
    for which in "best", "last":
        net.load_state_dict(load_tensors(run / f"checkpoints/{which}/model.safetensors"))
        out, _ = result(which, run, data, f"--checkpoint={which}")
        near(f"the {which} checkpoint", out["y"], whole(net, x[None])[0])
    step = os.readlink(run / "checkpoints/last")
    out, _ = result("step", run / "checkpoints" / step, data)
    check(out.attrs["weights"].decode().endswith(step), "a checkpoint by its name")
    with open(run / f"checkpoints/{step}/model.safetensors", "r+b") as f:
        f.seek(-1, 2), f.write(b"x")
    predict(run / "checkpoints" / step, data, "-o", place / "no.h5", status=3, says="damaged")
    memory = json.loads(predict(run, data, "--dry_run", "--json"))
    check(memory["peak_bytes"] == how["peak_bytes"] and "samples" not in memory, "dry run: memory alone")


def test_own_data():
    """A run on data of one's own: its statistics are taken off and put on again; the next state as truth."""
    net = nn.ModuleDict({"a": nn.Conv1d(2, 2, 3, padding=1)})
    with open(place / "own.dl", "w") as f:
        f.write("model Own():\n    input x: f32[N, C=2, L=16]\n    target t: f32[N, C=2, L]\n"
                "    y = x |> conv(2, 3, pad=1) @a\n    output y\n"
                "    loss = mean((y - t)**2)\n")
    a = np.random.default_rng(8).standard_normal((20, 2, 16)) * [[3], [0.1]] + [[50], [-7]]
    data = write("series.h5", u=a.astype("f4"))
    with h5py.File(data, "r+") as f:
        f["u"].attrs["units"], f["u"].attrs["_FillValue"] = "m/s", np.float32(1e20)
    entry = f"{{file: {data}, array: u, normalize: standardize"
    with open(place / "own.yaml", "w") as f:
        f.write("base:\n  local_batch_size: 2\n  num_epochs: 1\n  lr_schedule: none\n  data:\n"
                f"    inputs: {{x: {entry}}}}}\n"
                f"    targets: {{t: {entry}, offset: 1}}}}\n    split: {{valid: 0.2}}\n")
    place.run("dlrun", place / "own.dl", f"--yaml_config={place / 'own.yaml'}", f"--expdir={place / 'own'}")
    run = place / "own/own-base/1GPU/00"
    from oracle_tools import load_tensors
    net.load_state_dict(load_tensors(run / "checkpoints/last/model.safetensors"))
    got, how = result("series_out", run, f"{data}:u", "--checkpoint=last", "--metrics", "--rollout=3")
    kept = {line for p in place.dir.glob("series.h5*.statistics") for line in open(p)}
    check(kept and got["y"].shape == (20, 3, 2, 16), f"statistics of the training part are kept: {len(kept)} lines")
    check(dict(got["y"].attrs) == {"units": b"m/s"}, f"the next state has its units: {dict(got['y'].attrs)}")
    # of the first 80%, less what has no next one, for the input as for the target
    m, s = (f(a[:15].astype("f4"), (0, 2)).astype("f4")[:, None] for f in (np.mean, np.std))
    x, worst = a.astype("f4"), 0
    with torch.no_grad():
        for step in range(3):
            x = net["a"](torch.from_numpy((x - m) / s)).numpy() * s + m
            worst = np.maximum(worst, np.abs((got["y"][:, step] - x) / s).max())
    check(worst < 1e-4, f"three steps in the data's units: {worst:.1e}")
    error = np.sqrt(((got["y"][:19, 0].astype("f8") - a[1:]) ** 2).mean((0, 2)))
    check(np.allclose(how["rmse"][0], error, rtol=1e-4), f"RMSE one sample later: {how['rmse'][0]} {error}")
    stored = np.round(a * 100).astype("i2")
    with h5py.File(write("packed.h5", u=stored), "r+") as f:
        f["u"].attrs["scale_factor"] = 0.01
    packed, _ = result("packed_out", run, place / "packed.h5", "--checkpoint=last")
    plain, _ = result("plain_out", run, write("plain.h5", u=(stored * 0.01).astype("f4")), "--checkpoint=last")
    check(np.allclose(packed["y"], plain["y"], rtol=1e-5), "NetCDF's packed numbers stand for others")


def test_own_inputs():
    """Each input by its own statistics, whichever leads; of an array without places, those of each channel; missing
    numbers by the run's."""
    with open(place / "two.dl", "w") as f:
        f.write("model Two():\n    input b: f32[N, K=2]\n    input a: f32[N, C=1, L=16]\n"
                "    input c: f32[N, C=2, K=3]\n    target t: f32[N, C=1, L]\n"
                "    numbers = (sum(b, over=K) as [N]) + (sum(c, over=[C, K]) as [N])\n"
                "    y = (a |> conv(1, 3, pad=1) @a) + 0.1 * numbers |> tanh\n    output y\n"
                "    loss = mean((y - t)**2)\n")
    r = np.random.default_rng(9)
    a, b = (r.standard_normal((20, 1, 16)) * 3 + 50).astype("f4"), (r.standard_normal((20, 2)) * [0.1, 7] +
                                                                    [-4, 9]).astype("f4")
    c = (r.standard_normal((20, 2, 3)) * [[0.1], [7]] + [[-4], [9]]).astype("f4")
    data = write("two.h5", a=a, b=b, c=c)
    entry = lambda name, rest="": f"{{file: {data}, array: {name}{rest}}}"
    with open(place / "two.yaml", "w") as f:
        f.write("base:\n  local_batch_size: 2\n  num_epochs: 1\n  lr_schedule: none\n  data:\n    inputs:\n"
                f"      a: {entry('a', ', normalize: standardize, nan: 1.75')}\n"
                f"      b: {entry('b', ', mean: 2.5, std: 4').replace('array: b', 'array: b, axes: [N, K]')}\n"
                f"      c: {entry('c', ', normalize: standardize, axes: [N, C, K]')}\n"
                f"    targets: {{t: {entry('a')}}}\n    split: {{valid: 0.2}}\n")
    place.run("dlrun", place / "two.dl", f"--yaml_config={place / 'two.yaml'}", f"--expdir={place / 'two'}")
    run = place / "two/two-base/1GPU/00"
    from oracle_tools import load_tensors
    net = nn.ModuleDict({"a": nn.Conv1d(1, 1, 3, padding=1)})
    net.load_state_dict(load_tensors(run / "checkpoints/last/model.safetensors"))
    got, _ = result("two_out", run, f"b={data}:b", f"a={data}:a", f"c={data}:c", "--checkpoint=last")
    mean, std = a[:16].mean(), a[:16].std()
    c = (c - c[:16].mean((0, 2), keepdims=True)) / c[:16].std((0, 2), keepdims=True)
    with torch.no_grad():
        numbers = torch.from_numpy((b - 2.5) / 4).float().sum(1) + torch.from_numpy(c).float().sum((1, 2))
        want = torch.tanh(net["a"](torch.from_numpy((a - mean) / std)) + 0.1 * numbers[:, None, None])
    near("three inputs, each less its own mean", got["y"], want)
    a[3, 0, 5] = a[7, 0, 15] = np.nan
    gaps = write("gaps.h5", a=a)
    got, _ = result("gaps_out", run, f"b={data}:b", f"a={gaps}:a", f"c={data}:c", "--checkpoint=last")
    a = torch.from_numpy((a - mean) / std).nan_to_num(1.75)
    with torch.no_grad():
        want = torch.tanh(net["a"](a) + 0.1 * numbers[:, None, None])
    near("a missing number is the one that the run had for it", got["y"], want)


def targets_run(name, text, targets, data):
    """A run of one epoch on targets with `normalize: standardize`; its directory and weights."""
    from oracle_tools import load_tensors
    with open(place / f"{name}.dl", "w") as f:
        f.write(text)
    source = lambda array, norm: f"{{file: {data}, array: {array}{', normalize: standardize' if norm else ''}}}"
    with open(place / f"{name}.yaml", "w") as f:
        f.write(f"base: {{local_batch_size: 4, num_epochs: 1, data: {{inputs: {{a: {source('a', True)}}}, targets: {{"
                + ", ".join(f"{t}: {source(array, norm)}" for t, (array, norm) in targets.items()) +
                "}, split: {valid: 0.2}}}\n")
    place.run("dlrun", place / f"{name}.dl", f"--yaml_config={place / name}.yaml", f"--expdir={place / name}")
    run = place / name / f"{name}-base/1GPU/00"
    return run, load_tensors(run / "checkpoints/best/model.safetensors")


def test_two_targets():
    """Outputs are undone by the statistics of the target of their name, else of their place; predict does not guess
    else."""
    model = ("model M():\n    input a: f32[N, F=8]\n    target b: f32[N, F]\n    target c: f32[N, F]\n"
             "    {first} = a |> linear(8) @l as [N, F]\n"
             "    {second} = a |> linear(8) @m as [N, F]\n{more}    output {first}\n    output {second}\n"
             "    loss = mse_loss({loss_b}, b) + mse_loss({loss_c}, c)\n")
    r = np.random.default_rng(11)
    a, b = r.normal(300, 5, (40, 8)).astype("f4"), r.normal(0, 10, (40, 8)).astype("f4")
    data = write("targets.h5", a=a, b=b, c=a * 3)
    scaled = {"b": ("b", True), "c": ("c", True)}
    statistics = {"b": (b[:32].mean(), b[:32].std()), "c": (3 * a[:32].mean(), 3 * a[:32].std()), "none": (0, 1)}
    cases = [("order", {"first": "y", "second": "z", "loss_b": "y", "loss_c": "z"}, scaled,
              {"y": ("l", "b"), "z": ("m", "c")}),
             ("half", {"first": "y", "second": "z", "loss_b": "y", "loss_c": "z"}, {**scaled, "b": ("b", False)},
              {"y": ("l", "none"), "z": ("m", "c")})]
    for name, names, targets, outputs in cases:
        run, weights = targets_run(name, model.format(more="", **names), targets, data)
        got, _ = result(f"{name}_out", run, f"{data}:a")
        x = (a - a[:32].mean()) / a[:32].std()
        for output, (layer, target) in outputs.items():
            mean, std = statistics[target]
            want = (x.astype("f8") @ weights[f"{layer}.weight"].numpy().T +
                    weights[f"{layer}.bias"].numpy()) * std + mean
            near(f"{name}: the output '{output}' in the units of its target", got[output], torch.from_numpy(want))
    three = model.format(first="y", second="z", loss_b="y", loss_c="z", more="    u = relu(y)\n    output u\n")
    run, _ = targets_run("three", three, scaled, data)
    predict(run, f"{data}:a", "-o", place / "three_out.h5", status=3,
            says="3 outputs and 2 targets.*the model can say `output u undo b`")
    run, _ = targets_run("units", three, {"b": ("b", False), "c": ("c", False)}, data)
    got, _ = result("units_out", run, f"{data}:a")
    check(got["u"].shape == (40, 8), "the remedy: outputs in the targets' units, which nothing normalised")


def test_faults():
    weights, model = model_of(Plane(), "plane")
    x = np.zeros((3, 24, 36), "f4")
    data, out = write("zero.h5", x=x, other=x), ["-o", place / "no.h5"]
    for status, says, args in [
        (2, "CHECKPOINT DATA", []), (2, "CHECKPOINT DATA", [weights[0]]), (2, "where to", [*weights, data, *model]),
        (2, "says nothing of its model", [*weights, data, *out]),
        (3, "several arrays fit", [*weights, data, *model, *out]),
        (3, "no array 'nix'", [*weights, f"{data}:nix", *model, *out]),
        (4, "cannot open .*nowhere", [place / "nowhere", data, *out]),
        (4, "cannot open .*none.h5", [*weights, place / "none.h5", *model, *out]),
        (3, "no directory of a run", [place.dir, data, *out]),
        (2, "--tiles=much", [*weights, f"{data}:x", *model, *out, "--tiles=much"]),
        (2, "--rollout needs a whole number", [*weights, f"{data}:x", *model, *out, "--rollout=0"]),
        (3, "the first output feeds an input", [*weights, f"{data}:x", *model, *out, "--rollout=2"]),
        (3, "is empty: an axis of it has no elements",
         [*weights, f"{write('hollow.h5', x=np.zeros((0, 3, 24, 36), 'f4'))}:x", *model, *out]),
        (2, "--samples=5", [*weights, f"{data}:x", *model, *out, "--samples=5"]),
        (2, "has 1", [*weights, f"{data}:x", *model, *out, "--samples=4:5"]),
        (2, "say where the truth is", [*weights, f"{data}:x", *model, *out, "--metrics"]),
        (3, "does not fit", [*weights, f"{data}:x", *model, *out, "--metrics", f"--target={data}:x"]),
        (2, "is what this command reads", [*weights, f"{data}:x", *model, "-o", data]),
        (2, "unknown option '--depht'", [*weights, data, *model, *out, "--depht=3"]),
        (4, "no file can be made", [*weights, f"{data}:x", *model, "-o", place / "none/no.h5"]),
        (2, r"a .npy file holds one array, and the model has 2 outputs \('y', 'z'\): name a file that ends with .h5",
         [*weights, f"{data}:x", *model, "-o", place / "no.npy"]),
        (2, r"no writer for '.npz'", [*weights, f"{data}:x", *model, "-o", place / "no.npz"]),
    ]:
        predict(*args, status=status, says=says)
    with open(place / "of_target.dl", "w") as f:
        f.write("model M():\n    input x: f32[N, C=3, H=24, W=36]\n    target t: f32[N, C=3, H, W]\n"
                "    y = x |> conv(3, 1) @a\n"
                "    output y\n    z = y - t\n    output z\n    loss = mean(z**2)\n")
    predict(*weights, data, f"--model={place / 'of_target.dl'}", *out, status=3, says="made of its target 't'")
    check(not any(os.path.exists(place / name) for name in ("no.h5", "no.npy", "no.npz")),
          "nothing is left of what failed")
