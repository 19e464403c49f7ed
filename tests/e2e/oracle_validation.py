#!/usr/bin/env python3
"""Validation takes all samples: the last batch counts as many as it has, on any number of ranks. Next to NumPy in
float64: the mean of the batches' values, weighed by the batches' samples.

oracle_validation.py BUILD [OPTION...]
"""
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ranks"))
import mpi  # noqa: E402
from oracle_tools import Workplace, check, finish, load_tensors, save_tensors, torch  # noqa: E402

HEAD = """model V():
    input x: f32[N, T=3, C=4]
    target t: f32[N, T=3, K=2]
    target k: i64[N, T=3]
    y = x |> linear(2) @head as [N, T, K]
    output y
    flat = y |> rearrange("n t k -> (n t) k") as [R, K]
    loss = mse_loss(y, t) + 0 * sum(k)
"""
# Each way in which a value can depend on the number of samples.
METRICS = {
    "ignored": ("cross_entropy(y, k, ignore_index=7, over=K)", lambda y, t, k: cross_entropy(y, k, k != 7)),
    "root": ("sqrt(mean((y - t)**2))", lambda y, t, k: np.sqrt(((y - t)**2).mean())),
    "total": ("sum(abs(y - t))", lambda y, t, k: np.abs(y - t).sum()),
    "per_degree": ("sum((y - t)**2) / (N * 6 - 1)", lambda y, t, k: ((y - t)**2).sum() / (y.size - 1)),
    "share": ("mean(k == 7)", lambda y, t, k: (k == 7).mean()),
    "joined": ('mean(abs(flat))', lambda y, t, k: np.abs(y).mean()),
    "scale": ("mean(max(abs(y), over=[T, K]))", lambda y, t, k: np.abs(y).max((1, 2)).mean()),
    "product": ("mean(sum(y * t, over=N)**2)", lambda y, t, k: ((y * t).sum(0)**2).mean()),
}
OF_ONE_RANK = {  # over ranks, the mean of their maxima
    "largest": ("max(y)", lambda y, t, k: y.max()),
    "least": ("min(y)", lambda y, t, k: y.min()),
}
TIED = "    metric tied = mean(softmax(y, over=N) * t)\n"


def cross_entropy(y, k, counts):
    logs = y - np.log(np.exp(y).sum(-1, keepdims=True))
    of_class = np.take_along_axis(logs, np.where(counts, k, 0)[..., None], -1)[..., 0]
    return -(of_class * counts).sum() / counts.sum()


def weighed(value, arrays, batch):
    """The mean over the batches of so many samples, the last of which may have fewer."""
    n = len(arrays[0])
    parts = [[a[i:i + batch] for a in arrays] for i in range(0, n, batch)]
    return sum(len(p[0]) * value(*p) for p in parts) / n


def check_test(place):
    """`dlrun test` of held-out data: the model's own loss and metrics, next to NumPy, with the run's normalisation."""
    random = np.random.default_rng(8)
    arrays = {"x": random.normal(3, 2, (30, 4)), "t": random.normal(0, 1, (30, 2))}
    for name, a in arrays.items():
        np.save(place / f"{name}.npy", a.astype("f4"))
    (place / "held.dl").write_text("""model H():
    input x: f32[N, C=4]
    target t: f32[N, K=2]
    y = x |> linear(2) @head as [N, K]
    output y
    loss = mse_loss(y, t)
    metric mae = mean(abs(y - t))
""")
    x, t = place / "x.npy", place / "t.npy"
    data = f"inputs: {{x: {{file: '{x}', mean: 3, std: 2}}}}, targets: {{t: '{t}'}}, split: {{valid: 0.3}}"
    (place / "held.yaml").write_text(f"held: {{model: {place / 'held.dl'}, local_batch_size: 5, num_epochs: 2, "
                                     f"lr: 0.1, data: {{{data}}}}}\n")
    place.run("dlrun", place / "held.yaml", f"--expdir={place / 'held'}")
    last = next((place / "held").rglob("checkpoints/last"))
    w = load_tensors(last / "model.safetensors")
    y = (arrays["x"][7:] - 3) / 2 @ w["head.weight"].double().numpy().T + w["head.bias"].double().numpy()
    t = arrays["t"][7:]
    words = f"x={place / 'x.npy'}", f"t={place / 't.npy'}", "--samples=7:100"
    said = json.loads(place.run("dlrun", "test", last, *words, "--json"))
    want = {"loss": ((y - t)**2).mean(), "mae": np.abs(y - t).mean()}
    got = {"loss": said["loss"], **said["metrics"]}
    check(said["samples"] == 23 and all(abs(got[k] - want[k]) < 1e-6 * abs(want[k]) for k in want),
          f"dlrun test: {said}, {want}")
    text = place.run("dlrun", "test", last, *words)
    check(f"loss        {want['loss']:.4f}"[:-1] in text and "samples     23" in text, text)
    text = place.run("dlrun", "test", last, words[0], status=2)
    check("no data is named for the target 't': --target=t=FILE" in text, text)
    text = place.run("dlrun", "test", last, place / "x.npy", status=2)
    check("which array is 'x'? x=FILE:ARRAY for each input and target" in text, text)


def main(build, *_):
    place = Workplace(build)
    random = np.random.default_rng(5)
    weights = {"head.weight": random.normal(0, 1, (2, 4)), "head.bias": random.normal(0, 1, 2)}
    save_tensors(place / "w.safetensors", {n: torch.from_numpy(w.astype("f4")) for n, w in weights.items()})
    most = 60
    x, t = random.normal(0, 1, (most, 3, 4)).astype("f4"), random.normal(0, 1, (most, 3, 2)).astype("f4")
    k = random.choice([0, 1, 7], (most, 3))
    y = x.astype("f8") @ weights["head.weight"].astype("f4").T + weights["head.bias"].astype("f4")

    def validate(name, samples, batch, metrics, *args, tail="", **env):
        """The last point of a run that changes nothing, and its log."""
        (place / f"{name}.dl").write_text(
            HEAD + "".join(f"    metric {m} = {text}\n" for m, (text, _) in metrics.items()) + tail)
        for a, values in (("x", x), ("t", t), ("k", k)):
            np.save(place / f"{name}-{a}.npy", values)
        of = {a: place / f"{name}-{a}.npy" for a in "xtk"}
        (place / f"{name}.yaml").write_text(
            f"base:\n  data: {{inputs: {{x: {of['x']}}}, targets: {{t: {of['t']}, k: {of['k']}}}, "
            f"split: {{train: [{samples}, {most}], valid: [0, {samples}]}}}}\n")
        process = place.start("dlrun", *args, place / f"{name}.dl", f"--yaml_config={place / name}.yaml",
                              f"--local_batch_size={batch}", "--lr=0", "--lr_schedule=none", "--num_epochs=1",
                              f"--init_weights={place / 'w.safetensors'}", f"--expdir={place / name}",
                              env={**place.env, **env})
        log = process.communicate()[0]
        points = [json.loads(line) for p in (place / name).rglob("metrics.jsonl")
                  for line in p.read_text().splitlines()]
        return process.returncode, log, ([p for p in points if "Loss/valid" in p] or [{}])[-1]

    def compare(what, point, samples, batch, metrics):
        arrays = y[:samples], t[:samples].astype("f8"), k[:samples]
        for name, (_, value) in {**metrics, "Loss": (0, lambda y, t, k: ((y - t)**2).mean())}.items():
            got, want = point.get(f"{name}/valid", np.nan), weighed(value, arrays, batch)
            # float32: sums of at most 240 numbers of the size of 1
            check(abs(got - want) < 1e-5 * max(1, abs(want)), f"{what}: {name} {got:.7g}, {want:.7g} in NumPy")

    everything = {**METRICS, **OF_ONE_RANK}
    for samples, batch in ((21, 8), (16, 8), (3, 8), (9, 8), (7, 1)):
        status, log, point = validate(f"s{samples}b{batch}", samples, batch, everything)
        check(status == 0 and "leaves out" not in log,
              f"{samples} samples in batches of {batch}: {status} {log[-300:]}")
        compare(f"{samples} samples in batches of {batch}", point, samples, batch, everything)

    status, log, point = validate("tied", 21, 8, {"total": METRICS["total"]}, tail=TIED)
    check(status == 0 and "Validation leaves out the last 5 of its 21 samples: they fill no batch of 8, and the model "
          "relates the samples of a batch to each other" in log, f"a softmax over the batch: {status} {log[-600:]}")
    compare("a softmax over the batch", point, 16, 8, {"total": METRICS["total"]})
    status, log, _ = validate("few", 3, 8, {}, tail=TIED)
    check(status == 2 and "validation has 3 samples, which fill no batch of 8, and the model relates" in log,
          f"no full batch: {status} {log[-400:]}")

    mpirun = mpi.find(place.build, "openmpi") or mpi.find(place.build, "mpich")
    if not mpirun:
        print("no MPI: several ranks are not run")
        finish()
    ways = {n: m for n, m in METRICS.items() if n != "total"}  # a sum, whose mean over ranks is told
    for ranks, samples, batch in ((2, 21, 4), (2, 17, 8), (3, 2, 2)):
        name = f"r{ranks}s{samples}b{batch}"
        status, log, point = validate(name, samples, batch, ways, f"-n{ranks}", DLR_MPIRUN=mpirun, **mpi.environment())
        check(status == 0 and "leaves out" not in log, f"{ranks} ranks, {samples} samples: {status} {log[-900:]}")
        compare(f"{ranks} ranks, {samples} samples, batches of {batch} each", point, samples, ranks * batch, ways)
    check_test(place)
    finish()


main(*sys.argv[1:])
