"""Models of one's own, as their writers meet dlc: whole numbers that name classes, rows or tokens are drawn as such,
wherever numbers are made up.

check_own_models.py BUILD     from the project's root; needs nothing but Python's own library
"""
import json
import math
import os
import re
import struct
import subprocess
import sys

from checks import ENV, SHARE, TMP, check, finish, run_points, save_file

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN = f"{BUILD}/cli/dlc", f"{BUILD}/cli/dlrun"
FEW = ["--data_loader_config=synthetic", "--local_batch_size=4", "--Nsamples=16", "--Nsamples_val=8", "--num_epochs=2"]


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, env=ENV, stdin=subprocess.DEVNULL)


def write(name, text):
    path = f"{TMP}/{name}.dl"
    with open(path, "w") as f:
        f.write(text)
    return path


def losses(path, *args):
    """What a run on synthetic data records of its loss."""
    name = os.path.basename(path)
    r = run(DLRUN, path, *FEW, *args, f"--expdir={TMP}/runs_{name}")
    check(r.returncode == 0, f"{name}: exit {r.returncode}: {r.stderr[-600:]}")
    return [p["Loss/train"] for p in run_points(f"{TMP}/runs_{name}")]


LANGUAGE = """module Block(heads)(x: [N, T, E]):
    h = x |> layer_norm @ln1
    q = h |> linear(E) @q
    k = h |> linear(E) @k
    v = h |> linear(E) @v
    x = x + (attention(q, k, v, heads, causal=true) |> linear(E) @proj)
    return x + (x |> layer_norm @ln2 |> linear(4*E) @fc1 |> gelu |> linear(E) @fc2)

model LM(vocab=37, E=16, depth=2, heads=2):
    input tokens: i32[N, T=21]
    x = tokens[T=0:20] |> embedding(vocab, E) @wte as [N, T, E]
    for i in range(depth): x = x |> Block(heads) @h.{i}
    y = x |> layer_norm @ln_f |> linear(vocab, bias=false) @head as [N, T, V]
    output y
    loss = cross_entropy(y, tokens[T=1:21], over=V)
"""


def test_language_model():
    """Tokens are below the vocabulary: a number that is none has an infinite loss."""
    path = write("lm", LANGUAGE)
    r = run(DLC, "verify", path)
    check(r.returncode == 0 and re.search(r'loss "loss" .*relative error \d\.\d+e-', r.stdout),
          f"verify: {r.stdout} {r.stderr}")
    r = run(DLC, "bench", path, "--steps=3", "--json")
    loss, flops = (json.loads(r.stdout)[key] if r.returncode == 0 else None for key in ("loss", "flops"))
    check(loss is not None and 2 < loss < 6, f"bench: {r.stdout[:300]} {r.stderr}")
    r = run(DLC, "bench", path, "--steps=1", "--json", "--predict")
    check(r.returncode == 0 and (found := json.loads(r.stdout))["program"] == "predict" and found["loss"] is None and
          0 < found["flops"] < flops / 2, f"bench --predict: {r.stdout[:300]} {r.stderr}")
    r = run(DLC, "simulate-ranks", path, "--ranks=2", "--global_batch_size=4", "--json")
    check(r.returncode == 0 and json.loads(r.stdout)["worst_loss"] < 1e-5, f"rehearse: {r.stdout} {r.stderr}")
    r = run(DLC, "estimate-scaling", path, "--ranks=2")
    check(r.returncode == 0, f"scale: {r.stdout} {r.stderr}")
    found = losses(path)
    check(all(2 < x < 6 for x in found), f"losses near log 37: {found}")


def test_bounds():
    """Of several bounds the smallest; through slices, casts and other names; floats that are made whole, too."""
    head = "model A():\n    input k: {}[N, T=40]\n    input x: f32[N, C=4]\n{}    y = x |> linear(3) @l\n    output y\n"
    sums = "    loss = mean(y**2) + mean(z)\n"  # NaN as soon as one number is no row
    for name, type, body in (
            ("embedding", "i32", "    z = k |> embedding(5, 2) @e\n"),
            ("smallest", "i64",
             "    z = k |> embedding(5, 2) @e\n    w = one_hot(k, V=2) as [N, T, E]\n"
             "    z = z + 0.1 * w - log(sum(w, over=E))\n"),
            ("gather", "i32", "    z = gather(x, k, over=C)\n"),
            ("moved", "i32", "    z = (k as [N, S])[S=3:9] |> stop_gradient |> embedding(2, 3) @e\n"),
            ("where", "i64", "    z = where(k > 1, 0, k) |> embedding(2, 3) @e\n"),
            ("whole", "f32", "    z = (k as i32) |> embedding(3, 2) @e\n"),
            ("shared", "i32", "    e = embedding(4, 2) @e\n    z = k |> e\n    z = z + (k |> embedding(3, 2) @f)\n")):
        path = write(name, head.format(type, body) + sums)
        found = losses(path)
        check(all(map(math.isfinite, found)), f"{name}: {found}")
        if SHARE == 1:  # of a share, test_language_model's is the one: each measures this machine's ceilings, too
            r = run(DLC, "bench", path, "--steps=1", "--json")
            check(r.returncode == 0 and math.isfinite(json.loads(r.stdout)["loss"]),
                  f"{name}: {r.stdout[:300]} {r.stderr}")
    r = run(DLRUN, write("open", head.format("i32", "    z = k\n") + "    loss = mean(y**2) + mean(k as f32)\n"), *FEW,
            f"--expdir={TMP}/no")
    check(r.returncode == 3 and "does not say how many classes" in r.stderr and "embedding" in r.stderr,
          f"nothing says: {r.returncode} {r.stderr[-300:]}")


def test_nowhere_finite():
    """Two that are NaN throughout do not agree: there is nothing to compare."""
    text = "model A():\n    input x: f32[N, C=3]\n    y = {} |> linear(2) @l\n    output y\n    loss = mean(y**2)\n"
    r = run(DLC, "verify", write("nan", text.format("log(-1 - x*x)")))
    found = [f"{what} is nowhere finite: nothing to compare" in r.stdout for what in ("output 'y'", "loss 'loss'")]
    check(r.returncode == 7 and all(found) and "agree" not in r.stdout, f"exit {r.returncode}: {r.stdout} {r.stderr}")
    r = run(DLC, "verify",
            write("somewhere", text.format("log(1 + x*x)").replace("output y", "output cat(y, log(-1 - y*y), over=C)")))
    check(r.returncode == 0 and "all agree" in r.stdout, f"exit {r.returncode}: {r.stdout} {r.stderr}")


def test_not_seen():
    """Causal attention: what queries do not see may be NaN or infinite in a block that they share; kernels and
    interpreter agree."""
    text = ("model A():\n    input x: f32[N, T=200, E=16]\n    q = x |> linear(16)\n    k = x |> linear(16)\n"
            "    v = x |> linear(16)\n"
            "    {} = cat({}[T=0:150], {}, {}[T=151:200], over=T)\n    y = attention(q, k, v, 2, causal=true)\n"
            "    output q\n"
            "    loss = mean(y[T=0:60]**2)\n    metric near = mean(where(y[T=0:150] > 0, 1, 0))\n")
    for of in "kv":
        for what, made in (("nan", f"{of}[T=150:151] * (0 * {of}[T=150:151] / 0)"), ("inf", f"{of}[T=150:151] / 0")):
            r = run(DLC, "verify", write(f"{what}_in_{of}", text.format(of, of, made, of)))
            check(r.returncode == 0, f"{what} in {of}: exit {r.returncode}: {r.stdout} {r.stderr}")


def test_number_beyond():
    """A class or row that there is not is told next to the loss that it made infinite; what a model sets apart is
    not."""
    text = ("model A():\n    input x: f32[N, C=3]\n    target k: i64[N]\n    y = x |> linear(5) @l\n    output y\n"
            "    loss = cross_entropy(y, k{}) + mean({})\n")
    for name, args, also, k, told in (("class", "", "y", 7,
                                       "repeated: out of range is 'k', at [N=2]: 7, where the model takes 0 to 4; "
                                       "the first value"),
                                      ("row", "", "k |> embedding(4, 2) @e", 4,
                                       "repeated: out of range is 'k', at [N=2]: 4, where the model takes 0 to 3; "
                                       "the"),
                                      ("apart", ", ignore_index=-1", "log(-1 - y*y)", -1,
                                       "Step 1 repeated: the first value that")):
        path = write(name, text.format(args, also))
        save_file(f"{TMP}/x.safetensors", {"x.0": ([4, 3], [0.1] * 12), "k.0": ([4], [0, 1, k, 3], "I64")})
        r = run(DLRUN, path, "--local_batch_size=4", f"--replay={TMP}/x.safetensors", f"--expdir={TMP}/no")
        check(r.returncode == 7 and told in r.stderr, f"{name}: exit {r.returncode}: {r.stderr[-500:]}")


def test_even():
    """What does not deviate has a deviation of 0, and a gradient of 0, in any precision: no mean is rounded to 16
    bits."""
    path = write("even",
                 "model A():\n    input x: f32[N, C=5]\n    y = x |> linear(1) @a\n    output y\n"
                 "    loss = std(y / 9)\n")
    save_file(f"{TMP}/x.safetensors", {"x.0": ([1, 5], [0.3, -0.7, 0.21, 1.3, 0.9])})
    for mode in ("none", "bf16", "fp16"):
        r = run(DLRUN, path, "--local_batch_size=1", f"--replay={TMP}/x.safetensors", f"--amp_mode={mode}",
                "--log_norms", f"--expdir={TMP}/no")
        found = json.loads(r.stdout) if r.returncode == 0 else {}
        check(found.get("loss") == 0 and found.get("grad_norm") == 0 and not found.get("skipped"),
              f"{mode}: {r.stdout} {r.stderr[-300:]}")


def test_optimizer_names():
    """A layer that is labelled as what an optimiser keeps, next to a parameter of the layer's name: the same numbers as
    by another label, and the same bits after a stop."""
    text = """model A():
    input x: f32[N, C=3]
    target t: f32[N, C=3]
    param weight: [C=3] = 1
    y = x |> linear(3) @LABEL as [N, C]
    z = y * weight
    output z
    loss = mse_loss(z, t)
"""
    first = {".bias": ([3], [0.1, 0.2, 0.3]), ".weight": ([3, 3], [0.1 * i for i in range(9)])}
    ends = {}
    for label in ("exp_avg", "other"):
        path = write(f"named_{label}", text.replace("LABEL", label))
        save_file(f"{TMP}/{label}.safetensors",
                  {"weight": ([3], [1.0, 0.5, 2.0]), **{label + k: v for k, v in first.items()}})
        for way in ("whole", "parts"):
            some = [*FEW, f"--init_weights={TMP}/{label}.safetensors", f"--expdir={TMP}/named_{label}_{way}"]
            for more in ([[]] if way == "whole" else [["--stop_after=1"], ["--resume=true"]]):
                r = run(DLRUN, path, *some, *more)
                check(r.returncode == (75 if "--stop_after=1" in more else 0),
                      f"{label}, {way}, {more}: exit {r.returncode}: {r.stderr[-400:]}")
            found = {os.path.basename(d): open(f"{d}/model.safetensors", "rb").read()
                     for d, _, files in os.walk(f"{TMP}/named_{label}_{way}") if "model.safetensors" in files}
            ends[label, way] = found.get("step-00000008")
    check(ends["exp_avg", "whole"] and ends["exp_avg", "whole"] == ends["exp_avg", "parts"],
          "the same bits after a stop")
    check(ends["exp_avg", "whole"] and ends["exp_avg", "whole"][-60:] == ends["other", "whole"][-60:],
          "the same weights as by another label")


def test_no_configuration():
    """Without a word about data, it is said what to give; an argument that a key has taken, by that key's meaning."""
    for name, axes in (("flat", "C=3"), ("image", "C=3, H=8, W=8"), ("volume", "C=3, D=8, H=8, W=8")):
        text = (f"model A():\n    input x: f32[N, {axes}]\n    target t: f32[N, {axes}]\n    y = x * 2\n    output y\n"
                "    loss = mean((y - t)**2)\n")
        text = text.replace("y = x * 2", "param p: f32[N] = 1".replace("f32[N]", "[C=3]") + "\n    y = x * p")
        r = run(DLRUN, write(name, text), f"--expdir={TMP}/no")
        told = all(words in r.stderr
                   for words in ("no data are named", "data: {inputs:", "--data_loader_config=synthetic"))
        check(r.returncode in (2, 3, 4) and told, f"{name}: exit {r.returncode}: {r.stderr}")
    r = run(DLC, "check",
            write("dt",
                  "model A(dt=0.1):\n    input x: f32[N, C=3]\n    y = dt * (x |> linear(3))\n    output y\n"
                  "    loss = mean(y**2)\n"))
    check(r.returncode == 3 and "model_dt; the run's dt is: time steps between weather's input and target" in r.stderr,
          f"{r.stderr}")


def test_split_by_class():
    """A file sorted by class, whose last tenth is validation: that training lacks its class is warned of; of a mixed
    one it is not. What fills no batch of validation is told."""
    def npy(name, dtype, shape, data):
        head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        head += b" " * (-(len(head) + 11) % 64) + b"\n"
        with open(f"{TMP}/{name}.npy", "wb") as f:
            f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data)

    path = write("sorted",
                 "model S():\n    input x: f32[N, F=3]\n    target t: i64[N]\n    y = x |> linear(10) @fc as [N, C]\n"
                 "    output y\n    loss = cross_entropy(y, t)\n")
    for name, labels, warned in (("in_order", [i // 5 for i in range(50)], True),
                                 ("mixed", [i % 10 for i in range(50)], False)):
        npy("x", "<f4", "(50, 3)", struct.pack("<150f", *[0.1] * 150)), npy("t", "<i8", "(50,)",
                                                                            struct.pack("<50q", *labels))
        with open(f"{TMP}/{name}.yaml", "w") as f:
            f.write(f"base: {{local_batch_size: 4, num_epochs: 1, expdir: {TMP}/{name}, data: {{inputs: {{x: "
                    f"{TMP}/x.npy}}, targets: {{t: {TMP}/t.npy}}, split: {{valid: 0.1}}}}}}\n")
        r = run(DLRUN, path, f"--yaml_config={TMP}/{name}.yaml")
        warning = "WARNING - 't': training has no sample of 1 of the 1 classes that validation has, class 9 first"
        told = warning in r.stderr
        check(r.returncode == 0 and told == warned, f"{name}: exit {r.returncode}: {r.stderr[-900:]}")
    # a part that is smaller than a batch: of validation its five samples count, of training it is an error
    for size, status in (40, 0), (46, 3):
        r = run(DLRUN, path, f"--yaml_config={TMP}/mixed.yaml", f"--local_batch_size={size}")
        check(r.returncode == status and (status == 0) != ("training has 45 samples, which fill no batch of 46: set "
                                                           "local_batch_size" in r.stderr),
              f"batches of {size}: exit {r.returncode}: {r.stderr[-900:]}")


def test_long_argument():
    """A message about a map of the command line shows its beginning, not all of it again."""
    path = write("map",
                 "model M():\n    input x: f32[N, F=3]\n    y = x |> linear(1) @l\n    output y\n"
                 "    loss = mean(y**2)\n")
    r = run(DLRUN, path, "--data={inputs: {x: {file: " + "a" * 300 + ".npy}}, splitt: {valid: 0.1}}")
    check(r.returncode == 2 and "splitt" in r.stderr and "a..." in r.stderr and len(r.stderr) < 400,
          f"exit {r.returncode}: {r.stderr}")


def test_another_of_that_name():
    """A model of one's own that is named as one of models/ has no configuration of ours."""
    path = write("resunet",
                 "model Mine(w=4):\n    input x: f32[N, C=3]\n    y = x |> linear(w) @a |> linear(1) @b\n"
                 "    output y\n    loss = mean(y**2)\n")
    r = run(DLRUN, path, "--data_loader_config=synthetic", "--local_batch_size=2", "--dry_run")
    check(r.returncode == 0, f"exit {r.returncode}: {r.stderr}")


def test_weights_told_early():
    """Weights of another model are refused before anything is compiled, or a run's folder made."""
    path = write("wide",
                 "model A(w=3):\n    input x: f32[N, C=3]\n    y = x |> linear(w) @l |> linear(w) @m\n    output y\n"
                 "    loss = mean(y**2)\n")
    save_file(f"{TMP}/w.safetensors",
              {"l.weight": ([3, 3], [0.1] * 9), "l.bias": ([3], [0.0] * 3), "n.bias": ([3], [0.0] * 3)})
    r = run(DLRUN, path, *FEW, f"--init_weights={TMP}/w.safetensors", f"--expdir={TMP}/early")
    told = all(t in r.stderr for t in ("w.safetensors", "m.weight", "n.bias"))
    check(r.returncode == 3 and told and not os.path.exists(f"{TMP}/early"), f"exit {r.returncode}: {r.stderr}")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
