#!/usr/bin/env python3
"""check_new.py op|template|device|loader|optimizer: what a new thing costs, and that it works.

The things are patches of tests/additions, KIND-NAME.patch. All files that a patch touches are counted, new ones, lists
of the build and tests among them: at most 3 for an op, 6 for a template, and 2 for each of the others. Pages that
tests/docs/check_reference.py writes are not counted, for nobody writes them. The copy that is built has all patches
(additions.py); then the thing is used:

op         its shapes, gradients next to central differences, meaning next to PyTorch, random graphs
template   a transform by butterflies, row by row: the same; random graphs train it by Adam on the CPU and on the
           emulated GPU, next to the interpreter
device     a GPU's row: it is listed, NVRTC compiles a model for it, and its emulated twin runs
loader     of matrices by registers: the tuner tries and takes it, and the plan computes the same
optimizer  trains as its paper's formula does, resumes to the same bits, and is in the reference
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

from additions import BUILD, TREE, Additions

MOST = {"op": 3, "template": 6, "device": 2, "loader": 2, "optimizer": 2}
TESTS = BUILD / "tests"


def check_op(a):
    a.run("shapes", TESTS / "test_infer")
    a.run("gradients", TESTS / "test_gradients")
    a.run("meaning next to PyTorch", "/usr/bin/python3", "tests/oracle/check_ops.py", TESTS / "interp_run")
    # as many graphs as it takes to fail where an op is not drawn
    a.run("random graphs, passes", TESTS / "pass_fuzz", "--graphs=200", "--passes", f"--reduce={BUILD}")
    a.run("random graphs, compiled", TESTS / "pass_fuzz", "--graphs=100", "--targets", f"--reduce={BUILD}")


GRAPH = """# A transform along each axis, in {type}, of which one has a size that is no power of two.
graph @train {{
  input $x = %0 : {type}[N=3, C=8, W=5]
  param $w = %1 : {type}[C=8, W=5] init zero
  %2 = mul $x, $w : {type}[N=3, C=8, W=5]
  %3 = hadamard %2 {{axis=C}} : {type}[N=3, C=8, W=5]
  %4 = hadamard %3 {{axis=W}} : {type}[N=3, C=8, W=5]
  %5 = mul %4, $x : {type}[N=3, C=8, W=5]
  %6 = mul %5, %5 : {type}[N=3, C=8, W=5]
  %7 = mean %6 {{over=[N, C, W]}} : {type}[]
  output "y" = %4
  loss "loss" = %7
}}
"""


def check_template(a):
    a.run("shapes", TESTS / "test_infer")
    a.run("meaning next to PyTorch", "/usr/bin/python3", "tests/oracle/check_ops.py", TESTS / "interp_run")
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "graph.dlir"
        for kind in ("f32", "f64"):
            path.write_text(GRAPH.format(type=kind))
            a.run(f"trains in {kind} on each CPU as the interpreter does", TESTS / "pass_fuzz", path, "--from=1",
                  "--passes", "--targets")
        path.write_text(GRAPH.format(type="f32"))
        for target in ("cuda:sm_80:emulated", "cuda:sm_90a:emulated"):
            a.run(f"and on {target}", TESTS / "pass_fuzz", path, "--from=1", f"--targets={target}")
        for low in ("bf16", "f16"):
            a.run(f"with mixed precision in {low}", TESTS / "pass_fuzz", path, "--from=1", "--targets", f"--low={low}")
    a.run("random graphs on the emulated GPU", TESTS / "pass_fuzz", "--graphs=12", "--targets=cuda:sm_90a:emulated",
          f"--reduce={BUILD}")


def check_device(a):
    text = a.run("help", "dlc", "compile", "--help")
    a.say("sm_87" in text, "it is in the help", text)
    text = a.run("an unknown target is refused", "dlc", "compile", "--target=none", "tests/data/small.dl", codes=(2, ))
    a.say("cuda:sm_87" in text, "and it is listed there", text)
    with tempfile.TemporaryDirectory() as place:
        plan = pathlib.Path(place) / "plan.dlp"
        version = subprocess.run(["dlc", "--version"], env=a.env, stdout=subprocess.PIPE, text=True).stdout
        if "no NVRTC" in version:
            print("SKIP: no NVRTC")
        else:
            a.run("NVRTC compiles a model for it", "dlc", "compile", "tests/data/small.dl", "--target=cuda:sm_87",
                  "-o", plan)
            data = plan.read_bytes() if plan.is_file() else b""
            at = data.find(b"\x7fELF\x02")
            flags = struct.unpack_from("<I", data, at + 48)[0] if at >= 0 else 0
            a.say(87 in (flags & 0xff, flags >> 8 & 0xff), f"machine code of sm_87: flags {flags:#x}")
        text = a.run("its emulated twin trains as the interpreter says", "dlc", "verify", "tests/data/small.dl",
                     "--device=cuda:emulated", "--target=cuda:sm_87:emulated")
        a.say("sm_87" in text or "ok" in text.lower(), "and says so", text)


def check_loader(a):
    text = a.run("the tuner tries it, takes it, and the sums agree", TESTS / "test_tune",
                 "16x8 of matrices by registers", codes=(0, ))
    a.say("0 failed" in text and not text.startswith("0 passed"), "something was checked", text)


# One parameter, whose gradient is known: the mean of (x w - t)^2.
MODEL = """model One():
    input  x: f32[N, C=4]
    target t: f32[N, C=1]
    y = x |> linear(1, bias=false) @last
    output y
    loss = mse_loss(y, t)
"""


def read_tensors(path):
    data = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    return {k: struct.unpack_from("<%df" % ((v["data_offsets"][1] - v["data_offsets"][0]) // 4), data,
                                  8 + n + v["data_offsets"][0])
            for k, v in head.items() if k != "__metadata__" and v["dtype"] == "F32"}


def write_tensors(path, tensors):
    head, body = {}, b""
    for name, (shape, values) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + 4 * len(values)]}
        body += struct.pack("<%df" % len(values), *values)
    text = json.dumps(head).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def yogi(w, batches, rate, b1=0.9, b2=0.999, eps=1e-3):
    """Zaheer et al. 2018, in double precision."""
    m, v = [0.0] * len(w), [0.0] * len(w)
    for i, (x, t) in enumerate(batches, 1):
        off = [sum(a * b for a, b in zip(row, w)) - want for row, want in zip(x, t)]
        for k in range(len(w)):
            g = sum(2 * o * row[k] for o, row in zip(off, x)) / len(x)
            m[k] = b1 * m[k] + (1 - b1) * g
            v[k] -= (1 - b2) * ((v[k] > g * g) - (v[k] < g * g)) * g * g
        w = [p - rate / (1 - b1**i) * mk / ((vk / (1 - b2**i))**0.5 + eps) for p, mk, vk in zip(w, m, v)]
    return w


def check_optimizer(a):
    steps, rate, batch = 6, 0.01, 3
    numbers = iter([(i * 37 % 101 - 50) / 64 for i in range(1, 1000)])
    batches = [([[next(numbers) for _ in range(4)] for _ in range(batch)], [next(numbers) for _ in range(batch)])
               for _ in range(steps)]
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        model, start, ends = place / "one.dl", place / "start.safetensors", place / "end.safetensors"
        model.write_text(MODEL)
        tensors = {}
        for i, (x, t) in enumerate(batches):
            tensors[f"x.{i}"] = ([batch, 4], [n for row in x for n in row])
            tensors[f"t.{i}"] = ([batch, 1], t)
        write_tensors(place / "batches.safetensors", tensors)
        first = [0.5, -0.25, 0.125, 1.0]
        write_tensors(start, {"last.weight": ([1, 4], first)})
        a.run("it trains", "dlrun", model, "--optimizer=yogi", f"--lr={rate}", "--lr_schedule=none",
              f"--local_batch_size={batch}", f"--init_weights={start}", f"--replay={place / 'batches.safetensors'}",
              f"--save_weights={ends}", "--threads=1")
        want = yogi(first, batches, rate)
        got = list(read_tensors(ends).get("last.weight", ())) if ends.is_file() else []
        a.say(len(got) == 4 and all(abs(g - w) <= 1e-5 for g, w in zip(got, want)) and got != first,
              f"as its formula says: {got}, {want}")
        runs = {}
        for name, more in (("whole", [[]]), ("cut", [["--stop_after=3", "--resume"], ["--resume"]])):
            for options in more:
                a.run(f"a run, {name} {' '.join(options)}", "dlrun", "tests/data/small.dl",
                      "--data_loader_config=synthetic", "--data_size=16", "--local_batch_size=2", "--Nsamples=8",
                      "--Nsamples_val=4", "--num_epochs=2", "--start_lr=1e-3", "--optimizer=yogi", "--threads=1",
                      f"--expdir={place / name}", f"--save_weights={place / name}.safetensors", *options,
                      codes=(75, ) if "--stop_after=3" in options else (0, ))
            path = place / f"{name}.safetensors"
            runs[name] = read_tensors(path) if path.is_file() else None
        a.say(runs["whole"] and runs["whole"] == runs["cut"], "the resumed run has the same bits")
    a.run("the reference is written", sys.executable, "tests/docs/check_reference.py", BUILD, "--write")
    pages = [p.name for p in (TREE / "docs/reference").glob("*.md") if "yogi" in p.read_text()]
    a.say("keys.md" in pages, f"and has it: {pages}")


kind = sys.argv[1]
additions = Additions(kind, MOST[kind])
if additions.built():
    globals()["check_" + kind](additions)
additions.finish()
