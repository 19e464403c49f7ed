"""Runs of dlrun in the library, and checkpoints of the library in dlrun; the header, the symbols, a locale with decimal
commas.

check_library.py BUILD     from the project's root; needs numpy
"""
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from checks import CACHE, ENV, TMP, check, finish

try:
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN, LIBRARY = f"{BUILD}/cli/dlc", f"{BUILD}/cli/dlrun", f"{BUILD}/library/libdlc.so"
os.environ.update(CACHE)
lib = ctypes.CDLL(LIBRARY)


class Status(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 1024)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("threads", ctypes.c_int),
                ("batch", ctypes.c_int64),
                ("settings", ctypes.c_void_p), ("config_file", ctypes.c_char_p), ("config_name", ctypes.c_char_p),
                ("train", ctypes.c_int), ("log", ctypes.c_void_p), ("log_context", ctypes.c_void_p),
                ("mpi_comm", ctypes.c_void_p),
                ("raw", ctypes.c_int), ("refuse_nan", ctypes.c_int), ("mpi_fint", ctypes.c_void_p),
                ("plan", ctypes.c_char_p)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int),
                ("shape", ctypes.c_int64 * 8), ("axis", ctypes.c_char_p * 8)]


lib.dlc_open.restype = ctypes.c_void_p
lib.dlc_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(Options), ctypes.POINTER(Status)]
lib.dlc_close.argtypes = [ctypes.c_void_p]


class Model:
    """A model, or its status where it does not open."""

    def __init__(self, path, **options):
        self.status = Status()
        o = Options(size=ctypes.sizeof(Options), device=b"cpu", threads=1, **options)
        self.at = lib.dlc_open(str(path).encode(), ctypes.byref(o), ctypes.byref(self.status))
        self.said = f"{self.status.code} {self.status.message.decode()}"

    def call(self, name, *args):
        ok = getattr(lib, f"dlc_{name}")(ctypes.c_void_p(self.at), *args, ctypes.byref(self.status))
        check(ok == 1, f"dlc_{name}: {self.status.code} {self.status.message.decode()}")

    def batch(self):
        """The most samples of a call's run, as the first input's shape has it."""
        t = Tensor()
        check(lib.dlc_describe(ctypes.c_void_p(self.at), 0, 0, ctypes.byref(t)) == 1, "dlc_describe")
        return t.shape[0]

    def predict(self, inputs, outputs):
        self.call("predict", ctypes.c_int64(len(outputs[0])), pointers(inputs), pointers(outputs))
        return outputs

    def evaluate(self, arrays, metrics):
        loss, values = ctypes.c_double(), (ctypes.c_double * metrics)()
        self.call("evaluate", ctypes.c_int64(len(arrays[0])), pointers(arrays), ctypes.byref(loss), values)
        return loss.value, list(values)

    def step(self, arrays):
        loss = ctypes.c_double()
        self.call("train_step", ctypes.c_int64(len(arrays[0])), pointers(arrays), ctypes.byref(loss))
        return loss.value

    def get(self, name, shape):
        a = np.zeros(shape, "f4")
        self.call("get", name.encode(), a.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(a.nbytes))
        return a

    def close(self):
        lib.dlc_close(self.at)


def pointers(arrays):
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


def run(*args, **env):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, env={**ENV, **env},
                          stdin=subprocess.DEVNULL, cwd=TMP)


MODEL = """model Two(width=5):
    input  x: f32[N, C=2, H=8]
    input  mask: f32[N, C=1, H=8]
    input  weight: f32[N, C=2, H=8]
    target big: f32[N, C=2, H=8]
    target k: i64[N, H=8]
    target small: f32[N, C=3, H=8]
    h = x |> conv(width, 3, pad=1) @a |> relu
    y = h |> conv(2, 3, pad=1) @b
    classes = h |> conv(3, 3, pad=1) @c
    masked = y * mask[C=0]
    loss = mean(weight * (masked - big)**2) + cross_entropy(classes, k, over=C) + mean((classes - small)**2)
    metric mae = mean(abs(y - big))
    big = masked
    output big
    output classes undo small
"""
TEXT = """two:
  model: two.dl
  global_batch_size: 4
  num_epochs: 2
  lr: 0.01
  lr_schedule: none
  data:
    inputs:
      x:      {file: x.npy, axes: [N, C, H], normalize: standardize, nan: 0.5}
      mask:   {file: mask.npy, axes: [N, C, H]}
      weight: {file: weight.npy, axes: [N, C, H]}
    targets:
      big: {file: big.npy, axes: [N, C, H], normalize: standardize}
      k:   {file: k.npy, axes: [N, H]}
      small: {file: small.npy, axes: [N, C, H], normalize: standardize}
    split: {valid: 0.25}
"""


def make_run():
    rng = np.random.default_rng(3)
    arrays = {"x": (rng.standard_normal((32, 2, 8)) * [[3], [50]] + [[-2], [1000]]).astype("f4"),
              "mask": rng.integers(0, 2, (32, 1, 8)).astype("f4"), "weight": rng.random((32, 2, 8)).astype("f4"),
              "big": (rng.standard_normal((32, 2, 8)) * [[100], [1]] + [[7], [-300]]).astype("f4"),
              "small": (rng.standard_normal((32, 3, 8)) * 0.01 + 5).astype("f4"),
              "k": rng.integers(0, 3, (32, 8)).astype("i8")}
    arrays["x"][5, 1, 3] = np.nan
    for name, a in arrays.items():
        np.save(f"{TMP}/{name}.npy", a)
    for name, text in (("two.dl", MODEL), ("two.yaml", TEXT)):
        with open(f"{TMP}/{name}", "w") as f:
            f.write(text)
    r = run(DLRUN, "two.yaml", "--device=cpu", "--threads=1")
    check(r.returncode == 0, f"dlrun: {r.returncode} {r.stderr[-500:]}")
    return f"{TMP}/runs/two/1GPU/00", arrays


def results(path, *words):
    """What `dlrun predict` writes for all samples."""
    r = run(DLRUN, "predict", path, "x=x.npy", "mask=mask.npy", "-o", "out.h5", "--device=cpu", "--threads=1", *words)
    check(r.returncode == 0, f"dlrun predict: {r.returncode} {r.stderr[-500:]}")
    return h5(f"{TMP}/out.h5")


def h5(path):
    import h5py
    with h5py.File(path, "r") as f:
        return {k: f[k][:] for k in f}


def outputs():
    return [np.zeros((32, 2, 8), "f4"), np.zeros((32, 3, 8), "f4")]


def test_run(path, arrays):
    """The bits of `dlrun predict`, and the numbers of its validation."""
    want = results(path)
    m = Model(path, train=1)
    if not check(m.at, m.said):
        return
    got = m.predict([arrays["x"], arrays["mask"], arrays["weight"]], outputs())
    for a, name in zip(got, ("big", "classes")):
        check(np.array_equal(a, want[name]), f"{name}: {np.abs(a - want[name]).max()} apart")
    check(np.abs(got[0]).max() > 200, "in the units of the data")
    last = [json.loads(line) for line in open(f"{path}/metrics.jsonl")][-1]
    held = [np.ascontiguousarray(arrays[n][24:]) for n in ("x", "mask", "weight", "big", "k", "small")]
    best = Model(f"{path}/checkpoints/last", train=1)
    loss, (mae,) = best.evaluate(held, 1)
    named = {k: v for k, v in last.items() if isinstance(v, float)}
    check(any(abs(loss - v) <= 1e-6 * abs(v) for v in named.values()), f"loss {loss} is none of {named}")
    check(any(abs(mae - v) <= 1e-6 * abs(v) for v in named.values()), f"mae {mae} is none of {named}")
    best.close(), m.close()
    raw = Model(path, raw=1)
    x = np.zeros((32, 2, 8), "f4")
    plain = raw.predict([x, arrays["mask"], arrays["weight"]], outputs())
    check(np.abs(plain[0]).max() < 50, "raw: normalised numbers")
    raw.close()
    strict = Model(path, refuse_nan=1)  # what the run replaces is no fault
    got = strict.predict([arrays["x"], arrays["mask"], arrays["weight"]], outputs())
    check(np.array_equal(got[1], want["classes"]), "refuse_nan: replaced numbers are finite")
    strict.close()


def test_save(path, arrays):
    """A library's checkpoint is a run of dlrun."""
    m = Model(path, train=1)
    first = [np.ascontiguousarray(arrays[n][:4]) for n in ("x", "mask", "weight", "big", "k", "small")]
    losses = [m.step(first) for _ in range(31)]
    check(losses[-1] < losses[0], f"it learns: {losses[0]} {losses[-1]}")
    saved = f"{TMP}/saved"
    m.call("save", saved.encode())
    with open(f"{saved}/checkpoints/last/state.json") as f:
        state = json.load(f)
    whole, more = divmod(state["iteration"], state["values"]["epoch_batches"])
    check(state["epoch"] == whole and more and state["position"] == 0, f"it has whole epochs alone: {state}")
    mine = m.predict([arrays["x"], arrays["mask"], arrays["weight"]], outputs())
    theirs = results(saved)
    check(np.array_equal(mine[0], theirs["big"]), "dlrun predict: the same bits")
    again = Model(saved, train=1)
    check(np.array_equal(m.get("a.weight", (5, 2, 3)), again.get("a.weight", (5, 2, 3))), "the same bits")
    check([m.step(first) for _ in range(3)] == [again.step(first) for _ in range(3)], "it goes on alike")
    again.close(), m.close()
    r = run(DLRUN, "two.yaml", "--device=cpu", "--threads=1", f"--resume={saved}", "--num_epochs=9",
            "--run_num=resumed")
    check(r.returncode == 0 and re.search("DONE", r.stderr + r.stdout),
          f"resume: {r.returncode} {(r.stdout + r.stderr)[-900:]}")
    check(os.path.exists(f"{TMP}/runs/two/1GPU/resumed/checkpoints/last"), "resumed")


def test_damaged(path):
    """A checkpoint that lost a file, or a part of one: a status with its name."""
    for name in ("model.safetensors", "state.json", "optimizer.safetensors"):
        for cut in (None, 0, 100):
            broken = f"{TMP}/broken"
            shutil.rmtree(broken, ignore_errors=True)
            shutil.copytree(path, broken, symlinks=True)
            file = f"{broken}/checkpoints/last/{name}"
            if cut is None:
                os.remove(file)
            else:
                os.truncate(file, cut)
            m = Model(f"{broken}/checkpoints/last", train=1)
            check(not m.at and m.status.code in (3, 4)
                  and (name in m.said or "state.json" in m.said or "checkpoint" in m.said),
                  f"{name} cut to {cut}: {m.at} {m.said}")
    m = Model("/etc/passwd")
    check(not m.at and m.status.code in (2, 3), m.said)


def expect_bits(m, path, want, arrays, what):
    """Of a network without a compiler: nothing is asked for that only the loss reads."""
    if check(m.at, f"{what}: {m.said}"):
        got = outputs()
        fed = (ctypes.c_void_p * 3)(arrays["x"].ctypes.data, arrays["mask"].ctypes.data)
        m.call("predict", ctypes.c_int64(32), fed, pointers(got))
        for a, name in zip(got, ("big", "classes")):
            check(np.array_equal(a, want[name]), f"{what}, {name}: {np.abs(a - want[name]).max()} apart")
        counts = [lib.dlc_count(ctypes.c_void_p(m.at), role) for role in range(4)]
        check(counts == [3, 3, 2, 1], f"{what}: {counts} inputs, targets, outputs and metrics")
        m.close()


def test_without_compiler(path, arrays):
    """The programs of a plan's file, and those that a run has kept, where there is neither compiler nor cache."""
    for words in ([DLC, "compile", "two.yaml", "-o", "two.dlp"],
                  [DLRUN, "two.yaml", "--run_num=kept", "--keep_kernels"]):
        r = run(*words, "--device=cpu")
        check(r.returncode == 0, f"{words}: {r.stderr[-500:]}")
    kept, plan = f"{TMP}/runs/two/1GPU/kept", f"{TMP}/two.dlp".encode()
    want, want_kept = results(path), {4: results(kept), 1: results(kept, "--local_batch_size=1")}
    before = {k: os.environ.get(k) for k in ("PATH", "CC", "DLR_CACHE_DIR")}
    os.environ.pop("CC", None)
    os.environ.update(PATH="/nonexistent", DLR_CACHE_DIR=f"{TMP}/empty")
    refuses(5, "no C compiler", path)
    expect_bits(Model(path, plan=plan), path, want, arrays, "a plan")
    told, log = [], ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    take = log(lambda _, level, text: told.append((level, text.decode())))
    for asked, most in ((0, 4), (1, 1), (3, 1), (4, 4), (100, 4)):  # programs of one sample, and of the run's four
        told.clear()
        m = Model(kept, batch=asked, log=ctypes.cast(take, ctypes.c_void_p))
        said = [f"most samples: {most}" in text for level, text in told if level == 1]
        check(m.at and m.batch() == most and said == [True] * (asked > most), f"a batch of {asked}: {m.said} {told}")
        expect_bits(m, kept, want_kept[most], arrays, f"kept kernels, a batch of {asked}")
    refuses(5, "no C compiler", kept, train=1)
    refuses(2, "for training", path, train=1, plan=plan)
    refuses(2, "dlc_options.plan", f"{TMP}/two.dlp")
    refuses(4, "nothing.dlp", path, plan=b"nothing.dlp")
    width = (ctypes.c_char_p * 2)(b"width=6", None)
    refuses(3, "was compiled for another run: width 5 (here 6)", path, plan=plan,
            settings=ctypes.cast(width, ctypes.c_void_p))
    refuses(3, "state.json", path, plan=f"{path}/checkpoints/last/state.json".encode())
    with open(f"{TMP}/two.dlp", "rb") as f, open(f"{TMP}/cut.dlp", "wb") as g:
        g.write(f.read()[:-100])
    refuses(3, "cut.dlp", path, plan=f"{TMP}/cut.dlp".encode())
    os.chmod(f"{TMP}/two.dlp", 0o666)
    refuses(6, "two.dlp", path, plan=plan)
    for key, value in before.items():
        os.environ.pop(key, None) if value is None else os.environ.update({key: value})


def refuses(code, part, path, **options):
    m = Model(path, **options)
    check(not m.at and m.status.code == code and part in m.said, f"{path} {options}: {code} {part}: {m.said}")


def test_header():
    """The header is C99 and C++11 without a warning; from the libraries nothing but dlc_* can be linked to."""
    for name, text in (("a.c", "#include <dlc.h>\nint main(void) { return dlc_version() == 0; }\n"),
                       ("a.cc", "#include <dlc.h>\nint main() { dlc_options o = {}; return o.size == sizeof o; }\n")):
        with open(f"{TMP}/{name}", "w") as f:
            f.write(text)
    include = f"-I{os.path.abspath('include')}"
    strict = ["-pedantic", "-Wall", "-Wextra", "-Werror", include]
    for compiler, *flags in (("gcc", "-std=c99"), ("clang", "-std=c99"), ("g++", "-std=c++11"),
                             ("clang++", "-std=c++11")):
        if shutil.which(compiler):
            r = run(compiler, *flags, *strict, "-c", "a.cc" if "++" in compiler else "a.c", "-o", "a.o")
            check(r.returncode == 0 and not r.stderr, f"{compiler}: {r.stderr}")
    r = run("gcc", "-std=c99", include, "a.c", f"{BUILD}/library/libdlc.a", "-lyaml", "-ldeflate", "-lz", "-lpthread",
            "-lm", "-ldl", "-o", "a")
    check(r.returncode == 0 and run("./a").returncode == 0, f"static: {r.stderr[-300:]}")
    for file, *flags in ((LIBRARY, "-D"), (f"{BUILD}/library/libdlc.a",)):
        names = [line.split()[-1]
                 for line in run("nm", *flags, "--defined-only", "--extern-only", file).stdout.splitlines()
                 if line.strip() and ":" not in line]
        check(len(names) == 12 and all(n.startswith("dlc_") for n in names), f"{file}: {names}")


def test_locale():
    """test_host in a locale that writes 0,5."""
    if not shutil.which("localedef") or run("localedef", "-i", "de_DE", "-f", "UTF-8", "--no-archive",
                                            f"{TMP}/de_DE.UTF-8").returncode:
        return print("SKIP: no locale de_DE can be made")
    r = run(f"{BUILD}/tests/library/test_library_host", LOCPATH=TMP, DLC_TEST_LOCALE="de_DE.UTF-8")
    check(r.returncode == 0 and "decimal comma" not in r.stdout, f"{r.returncode}: {r.stdout[-600:]}")


def test_terminal():
    """test_calls with a terminal as standard error."""
    ours, theirs = os.openpty()
    r = subprocess.run([f"{BUILD}/tests/library/test_library_calls"], stdout=subprocess.PIPE, stderr=theirs, text=True,
                       env={k: v for k, v in ENV.items() if k != "NO_COLOR"})
    os.close(theirs), os.close(ours)
    check(r.returncode == 0, f"{r.returncode}: {r.stdout[-600:]}")


path, arrays = make_run()
test_run(path, arrays)
test_save(path, arrays)
test_damaged(path)
test_without_compiler(path, arrays)
test_header()
test_locale()
test_terminal()
finish()
