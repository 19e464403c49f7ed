#!/usr/bin/env python3
"""The Python package: the bits of `dlrun predict`, training, parameters, arrays of all kinds, refusals, threads,
metrics, the example and the notebook.

check_python.py BUILD     from the project's root; needs NumPy (77: it is not there); PyTorch's tensors are tried where
                          it is there
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.path.abspath(sys.argv[1])
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "bindings/python")]
from checks import CACHE, ENV, TMP, check, finish  # noqa: E402
from trained import train  # noqa: E402

if not importlib.util.find_spec("numpy"):
    print("SKIP: no numpy")
    sys.exit(77)
import numpy as np  # noqa: E402

os.environ.update(DLC_LIBRARY=f"{BUILD}/library/libdlc.so", **CACHE)
import dlc  # noqa: E402

RUN = train(BUILD, ROOT)
X, TRUTH = np.load(f"{TMP}/x.npy"), np.load(f"{TMP}/y.npy")
KEPT = {"lr": 0.01, "lr_schedule": "none"}


def refuses(code, part, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except dlc.Error as error:
        check(error.code == code and part in str(error), f"{part}: {error.code}: {error}")
    else:
        check(False, f"not refused: {part}")


def test_predict():
    with dlc.open(RUN, threads=1, batch=4) as net:
        check(str(net.inputs["x"]) == "x: float32[N=4, C=1, W=32]"
              or str(net.inputs["x"]) == "x: float32[N, C=1, W=32]", str(net.inputs["x"]))
        check(net.batch == 4 and net.memory > 0 and list(net.outputs) == ["y"] and list(net.metrics) == ["mae"],
              "descriptions")
        check("x: float32" in repr(net), repr(net))
        check(np.array_equal(net.predict(X), TRUTH) and np.array_equal(net(x=X), TRUTH), "the bits of dlrun predict")
        for n in (0, 1, 3, 5):
            check(np.array_equal(net(X[:n]), TRUTH[:n]), f"{n} samples")
        y = np.zeros_like(TRUTH)
        check(net.predict(X, out=y) is y and np.array_equal(y, TRUTH), "out")
        refuses(2, "must be a writeable dense array", net.predict, X, out=y[:3])
        refuses(2, "must be a writeable dense array", net.predict, X, out=y.astype("f8"))
    refuses(2, "the model is closed", net.predict, X)
    refuses(2, "the model is closed", net.parameters.__getitem__, "a.weight")
    check(net.memory == 0 and "closed" in repr(net), "closed")
    net.close()


def test_arrays():
    net = dlc.open(RUN)
    same = {"float64": X.astype("f8"), "big-endian": X.astype(">f4"), "strides": np.repeat(X, 2, axis=2)[:, :, ::2],
            "lists": X.tolist(),
            "Fortran's order": np.asfortranarray(X)}
    wrapper = type("Wrapper", (), {"__array__": lambda self, *_, **__: X})
    same["__array__"] = wrapper()
    if importlib.util.find_spec("torch"):
        import torch
        same["torch"] = torch.from_numpy(X)
        same["torch with gradients"] = torch.from_numpy(X.copy()).requires_grad_()
        refuses(3, "'x' is of the shape", net, torch.zeros(3))
    for name, x in same.items():
        check(np.array_equal(net(x), TRUTH), name)
    refuses(3, "'x' is of the shape (samples, 1, 32), and the array (24, 32)", net, X[:, 0])
    refuses(3, "the array ()", net, 1.0)
    refuses(3, "float32 does not hold element (0, 0, 0)", net, X.astype("f8") + 1e-12)
    refuses(3, "no type of numbers", net, X + 1j)
    refuses(3, "no type of numbers", net, np.full((1, 1, 32), "a"))
    refuses(3, "masked", net, np.ma.masked_greater(X, 0))
    refuses(3, "NumPy cannot take this Elsewhere", net,
            type("Elsewhere", (), {"__array__": lambda *_, **__: 1 / [][:0]})())
    refuses(2, "'x' is given by position and by name", net, X, x=X)
    refuses(2, "there is no 'z': x", net, z=X)
    refuses(2, "2 arrays, and the model takes 1", net, X, X)
    refuses(2, "'x' is not given", net)
    nan = np.array(X[:2])
    nan[1, 0, 5] = np.nan
    check(np.isnan(net(nan)[1]).any() and np.array_equal(net(nan)[0], TRUTH[0]), "NaN stays with its sample")
    refuses(7, "'x': element 5 of sample 1", dlc.open(RUN, refuse_nan=True), nan)


def test_training():
    fields = np.arange(64, dtype="f4").reshape(4, 1, 16) % 7
    with dlc.open(f"{TMP}/two.dl", train=True, batch=4, settings={**KEPT, "c": 6}) as net:
        check(net.parameters.describe("a.weight").shape == (6, 2, 3), "an argument of the model")
        losses = [net.train_step(fields, 0 * fields, t=fields / 2) for _ in range(30)]
        check(losses[-1] < losses[0], f"losses {losses[0]} to {losses[-1]}")
        loss, metrics = net.evaluate(fields, 0 * fields, fields / 2)
        check(loss < losses[0] and metrics["mae"] > 0, "evaluate")
        y, z = net(fields, v=0 * fields)
        check(net(fields, 0 * fields)._fields == ("y", "z") and z.shape == (4,)
              and np.allclose(z, y.mean((1, 2)), atol=1e-5), "two outputs")
        net.save(f"{TMP}/saved")
        with dlc.open(f"{TMP}/saved") as saved:
            check(np.array_equal(saved(fields, 0 * fields).y, y), "saved and opened")
        weights = dict(net.parameters)
        net.parameters["b.bias"] = [3.0]
        net.parameters.update({"b.weight": 0 * weights["b.weight"]})
        check((net(fields, fields).y == 3).all() and list(net.parameters) == list(weights), "parameters are set")
        refuses(3, "'b.weight' is of the shape (1, 6, 1), and the array (6)", net.parameters.__setitem__, "b.weight",
                np.zeros(6, "f4"))
        refuses(3, "float32 does not hold", net.parameters.__setitem__, "b.bias", np.array([0.1]))
        refuses(2, "takes exactly 4", net.train_step, fields[:2], fields[:2], fields[:2])
        refuses(3, "'v' is of the shape", net.train_step, fields, fields[0], fields)
        refuses(2, "'u' has 4 samples, and 'v' 2", net, fields, fields[:2])
        refuses(2, "'t' is not given", net.train_step, fields, fields)
    refuses(2, "train = 1", dlc.open(RUN).train_step, X[:4], X[:4])
    for call in (lambda: weights.__class__(net.parameters)["no"], lambda: net.parameters.__setitem__("no", 1)):
        try:
            call()
            check(False, "an unknown parameter")
        except (KeyError, dlc.Error):
            check(True, "an unknown parameter")


def test_input_of_the_loss():
    """One that only the loss reads may be left out of a prediction, and of no training step."""
    with open(f"{TMP}/weighted.dl", "w") as f:
        f.write("model Weighted():\n    input x: f32[N, F=3]\n    input weight: f32[N, F=2]\n"
                "    target t: f32[N, F=2]\n"
                "    y = x |> linear(2) @fc as [N, F]\n    output y\n    loss = mean(weight * (y - t)**2)\n")
    x, t = np.ones((4, 3), "f4"), np.zeros((4, 2), "f4")
    with dlc.open(f"{TMP}/weighted.dl", train=True, batch=4, settings=KEPT) as net:
        check(np.array_equal(net(x), net(x, t)), "left out")
        refuses(2, "the array of 'x' is NULL", net, weight=t)
        refuses(2, "'weight' is not given", net.train_step, x, t=t)
        check(net.train_step(x, t, t) == 0, "a weight of zero")


def test_bfloat16():
    with open(f"{TMP}/half.dl", "w") as f:
        f.write("model Half():\n    input x: bf16[N, F=3]\n    target t: f32[N, F=3]\n    y = 2.0 * x\n    output y\n"
                "    loss = mse_loss((x as f32) |> linear(3) @fc as [N, F], t)\n")
    try:
        net = dlc.open(f"{TMP}/half.dl")
    except dlc.Error as error:
        check(False, str(error))
        return
    x = np.array([[1, -2.5, np.nan], [3, 2.0**100, np.inf]], "f4")
    check(net.inputs["x"].dtype == "bfloat16" and np.array_equal(net(x), 2 * x, equal_nan=True), f"bfloat16: {net(x)}")
    check(np.array_equal(net(x.astype("f8")), 2 * x, equal_nan=True), "float64 as bfloat16")
    refuses(3, "bfloat16 does not hold element (1, 0), ", net, x + np.array([[0, 0, 0], [1 / 512, 0, 0]], "f4"))
    if importlib.util.find_spec("torch"):
        import torch
        check(np.array_equal(net(torch.from_numpy(x)), 2 * x, equal_nan=True), "a tensor of float32 as bfloat16")


def test_types():
    path = f"{TMP}/labels.dl"
    with open(path, "w") as f:
        f.write("model Labels():\n    input k: i64[N, F=2]\n    input m: bool[N, F=2]\n    target t: f32[N, F=2]\n"
                "    y = where(m, k * 1.0, 0.0)\n    w = y |> linear(2) @fc as [N, F]\n    output y\n"
                "    loss = mse_loss(w, t)\n")
    try:
        net = dlc.open(path)
    except dlc.Error as error:
        check(False, str(error))
        return
    k, m = np.array([[1, 2], [3, 4]], "i4"), np.array([[1, 0], [0, 1]])
    check(np.array_equal(net(k, m), [[1, 0], [0, 4]]) and net.outputs["y"].dtype in ("float64", "float32"),
          "i64 and bool")
    check(np.array_equal(net(k.astype("f4"), m.astype("u1")), [[1, 0], [0, 4]]), "whole numbers of other types")
    refuses(3, "int64 does not hold element (0, 1), ", net, k + np.array([0, 0.5]), m)
    refuses(3, "bool does not hold element (0, 0), 2", net, k, m + k)


def test_opening():
    refuses(4, "nonexistent", dlc.open, "/nonexistent")
    refuses(2, "no path", dlc.open, "")
    refuses(2, "threads -1", dlc.open, RUN, threads=-1)
    refuses(4, "nothing.dlp", dlc.open, RUN, plan="nothing.dlp")
    with open(f"{TMP}/faulty.dl", "w") as f:
        f.write("model M():\n    input x: f32[N, F=2]\n    y = convy(x)\n")
    refuses(3, "    3 |     y = convy(x)\n      |         ^", dlc.open, f"{TMP}/faulty.dl")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dlc.open(RUN).close()
        check(not told, f"warns: {[str(w.message) for w in told]}")
        with open(f"{TMP}/field.dl", "a") as f:
            f.write("# edited\n")
        os.chdir(TMP)
        dlc.open(RUN).close()
        os.chdir(ROOT)
    check(len(told) == 1 and told[0].category is dlc.Warning
          and "is not what the checkpoint was trained with" in str(told[0].message)
          and told[0].filename == __file__, f"an edited model warns: {[str(w.message) for w in told]}")


def test_threads():
    """Two models in two threads; and one in two, whose calls wait for each other."""
    nets = [dlc.open(RUN, threads=1), dlc.open(RUN, threads=1)]
    wrong = []

    def work(net, part):
        for i in range(200):
            if not np.array_equal(net(X[part]), TRUTH[part]):
                wrong.append(i)

    for pair in (nets, nets[:1] * 2):
        threads = [threading.Thread(target=work, args=(net, slice(i, i + 9))) for i, net in enumerate(pair)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check(not wrong, f"two threads: wrong numbers in rounds {wrong[:5]}")


def test_metrics():
    columns = dlc.read_metrics(RUN)
    points = [json.loads(line) for line in open(f"{RUN}/metrics.jsonl")]
    check(columns["epoch"].dtype == np.int64 and list(columns["epoch"]) == [p["epoch"] for p in points], "epochs")
    check(set(columns) == set().union(*points) and all(len(c) == len(points) for c in columns.values()), "columns")
    check(columns["Loss/train"].dtype == np.float64 and columns["Loss/train"][-1] == points[-1]["Loss/train"], "losses")
    with open(f"{TMP}/m.jsonl", "w") as f:
        f.write('{"a": 1, "s": "x"}\n{"a": null, "b": 2}\n{"a')
    odd = dlc.read_metrics(f"{TMP}/m.jsonl")
    check(np.isnan(odd["a"][1]) and np.isnan(odd["b"][0]) and list(odd["s"]) == ["x", None],
          f"values that are lacking: {odd}")
    refuses(4, "No such file", dlc.read_metrics, "/nonexistent")
    with open(f"{TMP}/m.jsonl", "w") as f:
        f.write('{"a": 1}\nb\n{"a": 2}\n')
    refuses(3, "m.jsonl:2 is no JSON object", dlc.read_metrics, f"{TMP}/m.jsonl")


def test_examples():
    env = {**os.environ, "PYTHONPATH": f"{ROOT}/bindings/python"}
    r = subprocess.run([sys.executable, f"{ROOT}/examples/embed/embed.py", RUN, f"{TMP}/x.f32", f"{TMP}/out.f32"],
                       env=env, capture_output=True, text=True)
    check(r.returncode == 0 and np.array_equal(np.fromfile(f"{TMP}/out.f32", "<f4"), TRUTH.ravel()),
          f"embed.py: {r.stderr[-600:]}")
    for notebook in sorted((ROOT / "examples/notebooks").glob("*.ipynb")):
        cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
        check(not any(c["outputs"] or c["execution_count"] for c in cells),
              f"{notebook.name}: outputs are not committed")
        program = "\n".join("".join(c["source"]) for c in cells)
        r = subprocess.run([sys.executable, "-W", "error", "-c", program], env=env, cwd=TMP, capture_output=True,
                           text=True)
        check(r.returncode == 0 and cells, f"{notebook.name}: {r.stderr[-800:]}")


def test_from_torch():
    """Refusals, which need no PyTorch that exports; tests/e2e/oracle_import.py has the rest."""
    pathlib.Path(TMP, "nets.py").write_text("def make(): return 3\n")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}/bindings/python", "PATH": f"{BUILD}/cli:{os.environ['PATH']}"}
    for words, status, says in (([], 2, "MODULE:FUNCTION"), (["--report"], 2, "comes first"),
                                (["nets:make"], 3, "PyTorch|returns int"),
                                (["--help"], 0, "dlc import")):
        r = subprocess.run([sys.executable, "-m", "dlc.from_torch", *words], env=env, cwd=TMP, capture_output=True,
                           text=True)
        check(r.returncode == status and re.search(says, r.stdout + r.stderr) and "Traceback" not in r.stderr,
              f"from_torch {words}: {r.returncode} {r.stdout} {r.stderr}")
    r = subprocess.run([sys.executable, "-m", "dlc.from_torch", "nets:make"], env={**env, "PATH": "/nonexistent"},
                       cwd=TMP, capture_output=True, text=True)
    check(r.returncode == 2 and "no program dlc on PATH" in r.stderr, f"without dlc: {r.stderr}")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
