"""check_random_text.py BUILD [--models=N] [--from=SEED] [--compiled=R] [--print=SEED]: random models in the model
language next to PyTorch in float64: the loss, all gradients, what a step of SGD or Adam leaves in the weights and the
running statistics, and the loss after it.

random_text/ draws them, each in both languages from one tree. All go through the front end and all passes, and are
computed by the interpreter; one in R, whose numbers are f64, is compiled and run as well (tests/tools/text_run.c), for
one of four targets in turn. A failing model is made small and printed with its seed, which --from=SEED --models=1
repeats. DLC_TEST_DRAW gives other models. Every layer and function of the language must stand in a production, and
every op be drawn here or by the random graphs of pass_fuzz.
"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from checks import DRAW
from oracle_tools import ROOT, torch
from random_text.model import draw, reduced
from random_text.writer import Refused

BATCH = 60
TARGETS = ["cpu:avx2", "cpu:generic", "cpu:avx512", "cuda:sm_90a:emulated"]
# Random in PyTorch, too; names of numbers that are known when compiling, and a model's own error
WITHOUT = {"scan", "dropout", "drop_path", "rand", "randn", "randint", "int", "fail"}
# With a graph of its own (check_scan_cells.py), for several ranks (tests/unit/test_shard_random.c), for the scale of a
# loss in f16 (pass_fuzz --low=f16), and for several losses in turn (tests/e2e/oracle_objectives.py)
OF_OTHERS = {"scan", "all_reduce", "all_gather", "reduce_scatter", "shift", "enter", "scale_gradient", "updated"}
# Relative: some hundred roundings of 2^-53 on numbers that cancel. In a model of f32 the numbers of its text are f32.
TOLERANCE = {"f64": 1e-9, "f32": 2e-6}
# What roundings leave of terms whose magnitudes add up to 1 and that cancel wholly, as in the gradient of a bias before
# a norm, or before a softmax over its own axis.
LEFT = {"f64": 1e-14, "f32": 2e-7}
torch.set_num_threads(1)
options = {"models": 40, "from": 1, "compiled": 10, "print": None, "engine": "passes"}
for arg in sys.argv[2:]:
    name, value = arg[2:].split("=")
    options[name] = value if name == "engine" else int(value)
options["from"] += DRAW * 1000000
HERE, BUILD = pathlib.Path(__file__).resolve().parent, pathlib.Path(sys.argv[1]).resolve()
text_run = BUILD / "tests/text_run"
os.environ.setdefault("DLR_CUDA_EMULATOR", str(BUILD / "tests/emulator/libcuda_emulator.so"))
work = pathlib.Path(tempfile.mkdtemp(prefix="dlc-text-"))


def write(path, numbers):
    out = b""
    for name, v in numbers.items():
        v = v.detach().to(torch.float64).contiguous()
        out += struct.pack("<I", len(name)) + name.encode() + struct.pack("<Q", v.numel()) + v.numpy().tobytes()
    path.write_bytes(out)


def read(path):
    data, at, out = path.read_bytes(), 0, {}
    while at < len(data):
        n, = struct.unpack_from("<I", data, at)
        name = data[at + 4:at + 4 + n].decode()
        count, = struct.unpack_from("<Q", data, at + 4 + n)
        at += 12 + n
        out[name] = torch.frombuffer(bytearray(data[at:at + 8 * count]),
                                     dtype=torch.float64) if count else torch.zeros(0)
        at += 8 * count
    return out


def ask(engine, models, rates):
    """What our programs make of models: results by name, or a message."""
    shutil.rmtree(work / "run", ignore_errors=True)
    (work / "run").mkdir()
    for i, (m, rate) in enumerate(zip(models, rates)):
        (work / f"run/{i}.dl").write_text(m.text())
        write(work / f"run/{i}.in", m.numbers_of(rate))
    left, answers = list(range(len(models))), {}
    while left:
        p = subprocess.run([text_run, engine, work / "run", *map(str, left)], capture_output=True, text=True,
                           timeout=900)
        done = [i for i in left if (work / f"run/{i}.out").exists() or (work / f"run/{i}.err").exists()]
        for i in done:
            failed = work / f"run/{i}.err"
            answers[i] = failed.read_text() if failed.exists() else read(work / f"run/{i}.out")
        left = [i for i in left if i not in done]
        if not left:
            break
        said = f"status {p.returncode}: {p.stderr.strip()[-600:]}"
        if engine in ("passes",
                      "meaning") or len(left) == 1:  # one after the other: the first one that is left ended it
            answers[left.pop(0)] = said
        else:  # all together: each by itself
            for i in left:
                answers[i] = ask_alone(engine, i)
            left = []
    return [answers[i] for i in range(len(models))]


def ask_alone(engine, i):
    p = subprocess.run([text_run, engine, work / "run", str(i)], capture_output=True, text=True, timeout=900)
    if (work / f"run/{i}.err").exists():
        return (work / f"run/{i}.err").read_text()
    if (work / f"run/{i}.out").exists():
        return read(work / f"run/{i}.out")
    return f"status {p.returncode}: {p.stderr.strip()[-600:]}"


def difference(model, engine, want, got):
    """"" or what differs. Numbers that rounding moves far are compared as far as PyTorch has their digits. A compiled
    loss is f32, and so are an embedding's weights."""
    if isinstance(got, str):
        return got
    largest = max((v.abs().max().item() for k, v in want.items() if k.startswith("grad") and v.numel()), default=0)
    moved = None
    for k, w in want.items():
        mine = got.get(k)
        if mine is None:
            if k.startswith("loss") or (k.startswith("grad") and w.abs().max() > 1e-12 * (1 + largest)):
                return f"{k} is absent"
            continue
        if mine.numel() != w.numel():
            return f"{k} has {mine.numel()} numbers, PyTorch's {w.numel()}"
        w = w.detach().reshape(-1)
        if not w.numel():
            continue
        off, size = (mine - w).abs().max().item(), w.abs().max().item()
        size = max(size, 1e-3 * largest) if k.startswith("grad") else max(size, 1)
        single = engine in TARGETS and (k.startswith("loss") or "embedding(" in model.text())
        if off <= max(TOLERANCE["f32" if single else model.real] * size, LEFT[model.real]):
            continue
        if moved is None:
            moved = [model.run(shake)[0] for shake in ((1e-13, 1e-12) if model.real == "f64" else (6e-8, 6e-8))]
        if off <= 30 * max((m[k] - want[k]).abs().max().item() for m in moved):
            continue
        i = (mine - w).abs().argmax().item()
        return f"{k}[{i}] is {mine[i].item()!r}, PyTorch has {w[i].item()!r} (largest {size:.3g})"
    return ""


def make(seed):
    """The model of that seed with what PyTorch makes of it, or None."""
    real = "f32" if seed % 3 == 0 else "f64"
    try:
        model = draw(seed, real)
        want, rate = model.run() if model else (None, None)
        flat = model and not any(v.any() for k, v in want.items() if k.startswith("grad"))  # an error of the front end
        return None if model is None or flat else (model, want, rate)
    except (Refused, NotImplementedError):
        return None
    except RuntimeError as e:  # what PyTorch has no second derivative of
        if "derivative" in str(e) or "does not require grad" in str(e) or "not implemented" in str(e):
            return None
        raise


def kind(said):
    """A failure that is made small stays of its kind."""
    if "PyTorch" in said or "absent" in said:
        return "numbers"
    found = re.search(r"DL-E\d+", said)
    return found[0] if found else said[:10]


def report(engine, model, said):
    def fails(smaller):
        try:
            want, rate = smaller.run()
        except (Refused, NotImplementedError, RuntimeError):
            return False
        again = difference(smaller, engine, want, ask(engine, [smaller], [rate])[0])
        return again and kind(again) == kind(said)

    small = reduced(model, fails)
    want, rate = small.run()
    again = difference(small, engine, want, ask(engine, [small], [rate])[0])
    print(f"FAILED seed {model.seed}, {engine}, {model.real}, N={model.batch}: {said}\nmade small: {again}")
    print(f"{small.text()}# in PyTorch:\n{small.python()}", flush=True)


def run_all():
    """Passed, failed, seeds without a model, and how often each op stood in a graph."""
    passed, failed, empty, ops = 0, 0, 0, {}
    for number, seed in enumerate(range(options["from"], options["from"] + options["models"], BATCH)):
        drawn = [make(k) for k in range(seed, min(seed + BATCH, options["from"] + options["models"]))]
        empty += drawn.count(None)
        drawn = [d for d in drawn if d]
        every = options["compiled"]
        some = [d for d in drawn if d[0].real == "f64"][:len(drawn) // every] if every else []
        for engine, models in ((options["engine"], drawn), (TARGETS[number % len(TARGETS)], some)):
            answers = ask(engine, [d[0] for d in models], [d[2] for d in models]) if models else []
            for (model, want, _), got in zip(models, answers):
                said = difference(model, engine, want, got)
                passed, failed = passed + (not said), failed + bool(said)
                if said:
                    report(engine, model, said)
                else:
                    for k in (k for k in got if k.startswith("op ")):
                        ops[k[3:]] = ops.get(k[3:], 0) + int(got[k][0])
    return passed, failed, empty, ops


def check_functions():
    """Every layer and function of the language stands in a production, or has a reason not to."""
    table = (ROOT / "frontends/dl/builtins.def").read_text()
    functions = re.findall(r'(?:BUILTIN|FORMULA|ELEM|REDUCE)\("(\w+)"', table)
    texts = "".join(path.read_text() for path in (HERE / "random_text").glob("*.py") if path.name != "torch_words.py")
    return [f for f in functions if f not in WITHOUT and not re.search(rf"\b{f}\b", texts)]


def check_ops(ops):
    """Every op is drawn here, or by the random graphs (tests/unit/random_nodes.h), or has a reason."""
    table = [line.split()[0] for line in
             subprocess.run([BUILD / "tests/op_run", "table"], capture_output=True, text=True,
                            check=True).stdout.splitlines()]
    nodes = (ROOT / "tests/unit/random_nodes.h").read_text()
    left = re.findall(r"DL_OP_(\w+)", nodes[nodes.index("random_left_out[]"):nodes.index("random_no_types")])
    return [op for op in table if op in left and op not in ops and op not in OF_OTHERS]


if options["print"] is not None:
    m = make(options["print"])
    print(m[0].text() + "# in PyTorch:\n" + m[0].python() if m else "no model")
    sys.exit(0)
start = os.times()
passed, failed, empty, ops = run_all()
undrawn = check_functions()
if options["models"] >= 300:
    undrawn += check_ops(ops)
if undrawn:
    print(f"FAILED: drawn by nobody: {' '.join(undrawn)}")
spent = sum(os.times()[:4]) - sum(start[:4])
shutil.rmtree(work, ignore_errors=True)
print(f"models from {options['from']} on, of which {empty} ran away; {len(ops)} ops; {spent:.1f} s of CPU")
print(f"{passed} passed, {failed + len(undrawn)} failed")
sys.exit(failed + len(undrawn) > 0 or passed == 0)
