#!/usr/bin/env python3
"""`dlc export --as=c` next to `dlrun predict`: the same bits, by gcc and clang, of each CPU target and several options;
what the object files have; threads, sanitizers, Fortran, CMake; what is refused.

oracle_export_c.py BUILD
"""
import glob
import os
import re
import shutil
import subprocess
import sys

import checks
from checks import CCACHE, CCACHE_ENV, DRAW, ENV, SHARE, TMP, check, finish, takes
from export_programs import FORTRAN, THREADS, TRAINED
from small_models import model_file

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"SKIP: {missing} (scripts/install-packages test)")
    sys.exit(77)

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DLC, DLRUN = (os.path.join(os.path.abspath(sys.argv[1]), "cli", name) for name in ("dlc", "dlrun"))
COMPILERS = [cc for cc in ("gcc", "clang") if shutil.which(cc)]
CPU = set(re.findall(r"\w+", next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")))
FLAGS = {"generic": []}
if {"avx2", "fma", "f16c"} <= CPU:
    FLAGS["avx2"] = ["-mavx2", "-mfma", "-mf16c"]
if {"avx512f", "fma", "avx2"} <= CPU:
    FLAGS["avx512"] = ["-mavx512f", "-mfma"]
STRICT = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror"]
NATIVE = list(FLAGS)[-1]
random = np.random.default_rng(5)


def run(command, status=0, says="", **more):
    """A program's output; with a status that is not 0, what it says must match."""
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                       **{"cwd": TMP, "env": ENV, **more})
    good = r.returncode == status and re.search(says, r.stdout + r.stderr)
    if not good or status:
        check(good,
              f"{' '.join(map(str, command))[-200:]}: exit {r.returncode}, wanted {status}, /{says}/: "
              f"{(r.stderr or r.stdout).strip()[-400:]}")
    return r.stdout if good else None


def here(*name):
    return os.path.join(TMP, *name)


def with_compilers(ways, cell):
    """(compiler, way): each way by each compiler, or, of a share, by one in turn, as drawn."""
    return [(cc, way) for i, way in enumerate(ways)
            for k, cc in enumerate(COMPILERS) if SHARE == 1 or k == (DRAW + cell + i) % len(COMPILERS)]


# ---- networks with weights ----

def variables(model, args):
    """A model's inputs, outputs and tensors, by kind: [(name, type, axes, initial value)]."""
    out = run([DLC, "compile", model, "--local_batch_size=1", *args, "--dump=ir", "--dump-after=lower"], cwd=ROOT) or ""
    found = {}
    declared = r"^  (input|param|state) \$(\S+)(?: by \S+)? = %\d+ : (\w+)\[(.*?)\](.*)"
    main = re.sub(r"(?ms)^body @.*?^}", "", out.split("graph @eval")[0])
    for kind, name, dtype, axes, init in re.findall(declared, main, re.M):
        found.setdefault(kind,
                         []).append((name, dtype, [int(re.search(r"\d+$", a)[0]) for a in axes.split(", ") if a], init))
    return found


def weight(name, shape, init):
    if name.endswith("running_var"):
        return random.uniform(0.5, 1.5, shape)
    numbers = [float(n) for n in re.findall(r"[-\d.e+]+", init.split("(")[-1].split(")")[0])] if "(" in init else []
    centre = numbers[0] if "const" in init else 0
    spread = abs(numbers[1]) if len(numbers) > 1 and "normal" in init else 0.1
    return centre + spread * random.standard_normal(shape)


def save(path, tensors):
    kinds = {"f4": "F32", "i8": "I64", "i4": "I32", "b1": "BOOL"}
    checks.save_file(path, {n: (list(t.shape), t.ravel().tolist(), kinds[t.dtype.str[1:]]) for n, t in tensors.items()})


def make(name, model, args, classes=4):
    """Weights of random numbers, and two samples of each input: in files, and as rows of raw numbers."""
    found = variables(model, args)
    tensors = {n: weight(n, shape, init).astype("f4") for kind in ("param", "state")
               for n, d, shape, init in found.get(kind, []) if d == "f32"}
    tensors |= {n: np.zeros(shape, {"i64": "i8", "i32": "i4", "bool": "?"}[d])
                for n, d, shape, _ in found.get("state", []) if d in ("i64", "i32", "bool") and "random." not in n}
    save(here(name + ".safetensors"), tensors)
    inputs = {}
    for n, d, shape, _ in found["input"]:
        x = random.standard_normal([2 * shape[0],
                                    *shape[1:]]) if d.startswith("f") else random.integers(
            0, 2 if d == "bool" else classes, [2, *shape[1:]])
        inputs[n] = x.astype({"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8", "bool": "u1"}[d])
    with h5py.File(here(name + ".h5"), "w") as f:
        for n, x in inputs.items():
            f[n] = x
    return {"name": name, "path": name + ".safetensors", "inputs": inputs,
            "args": [f"--model={os.path.join(ROOT, model)}", *args, "--data_loader_config=synthetic"]}


def predict(net, cc, target):
    """What dlrun predicts, one by one as C does: {output: array}; None: it does not serve such a network."""
    out = here("predicted.h5")
    if os.path.exists(out):
        os.remove(out)
    data = [f"{n}={net['name']}.h5:{n}"
            for n in net["inputs"]] if len(net["inputs"]) > 1 else [f"{net['name']}.h5:{next(iter(net['inputs']))}"]
    r = subprocess.run([DLRUN, "predict", net["path"], *data, "-o", out, "--local_batch_size=1", *net["args"],
                        f"--device=cpu:{target}"],
                       capture_output=True, text=True,
                       stdin=subprocess.DEVNULL, cwd=TMP, env={**ENV, "CC": cc})
    apart = "predict serves" not in r.stderr and "relates the samples of a batch" not in r.stderr
    if not apart or not check(r.returncode == 0, f"{net['name']}: {r.stderr[-300:]}"):
        return None
    with h5py.File(out) as f:
        return {n: f[n][()] for n in f}


def export(net, *more):
    folder = here("c_" + net["name"])
    shutil.rmtree(folder, ignore_errors=True)
    return folder if run([DLC, "export", net["path"], "-o", folder, "--as=c", *net["args"],
                          *more]) is not None else None


def stem(folder):
    return os.path.basename(glob.glob(folder + "/*.h")[0])[:-2]


def compile_c(folder, cc, flags, out="program", sources=None):
    """An executable of the folder's C, away from it; without anything of ours on the path."""
    n = stem(folder)
    objects, ok = [], True
    for source in sources or [f"{folder}/{n}.c", f"{folder}/{n}_weights.c", f"{folder}/example.c"]:
        objects.append(here(os.path.basename(source)[:-2] + ".o"))
        ok &= run([*CCACHE, cc, *flags, f"-I{folder}", "-c", source, "-o", objects[-1]],
                  env={"PATH": "/usr/bin:/bin", **CCACHE_ENV}) is not None
    return here(out) if ok and run([cc, *[f for f in flags if "sanitize" in f], *objects, "-lm", "-lpthread", "-o",
                                    here(out)]) is not None else None


def example(net, program, **more):
    """The outputs' bytes of the example, sample after sample."""
    names, n = list(net["inputs"]), net["outputs"]
    for name, x in net["inputs"].items():
        x.tofile(here("in_" + name))
    ok = program and run([program, *[here("in_" + x) for x in names], *[here(f"out_{k}") for k in range(n)]], env={},
                         **more)
    return [open(here(f"out_{k}"), "rb").read() for k in range(n)] if ok is not None and program else None


def arrays_of(folder):
    """The inputs and outputs that the header lists."""
    return re.findall(r"^ \*   (?:array_)?(\w+): ", open(glob.glob(folder + "/*.h")[0]).read(), re.M)[:-1]


def compare(net, folder, cc, target, flags):
    """One compiler, one target, one set of options: the bits of dlrun's prediction by the same compiler."""
    key = cc, target
    if key not in net.setdefault("truth", {}):
        net["truth"][key] = predict(net, cc, target)
    truth = net["truth"][key]
    order = arrays_of(folder)[len(net["inputs"]):]
    net["outputs"] = len(order)
    got = example(net, compile_c(folder, cc, flags))
    what = f"{net['name']}: {cc} {' '.join(flags)} ({target})"
    if check(got is not None and all(got), what + " runs") and truth:
        for name, bits in zip(order, got):
            size = len(bits) // truth[name].size  # predict writes i64, and floats of f64
            kind = f"f{size}" if truth[name].dtype.kind == "f" else f"i{size}"
            same = np.frombuffer(bits, kind).astype(truth[name].dtype).tobytes() == truth[name].tobytes()
            check(same, f"{what}: '{name}' has predict's bits")


MODELS = [
    ("unet", model_file("unet"), ["--data_size=32", "--full_scale=false"]),
    ("vit", "models/vit.dl",
     ["--img_size=[16,24]", "--n_in_channels=3", "--n_out_channels=2", "--embed_dim=48", "--depth=2", "--num_heads=4"]),
    ("resnet", "models/resnet.dl",
     ["--small=true", "--depths=[1,1,1,1]", "--widths=[8,8,16,16]", "--expand=1", "--n_classes=4",
      "--input_shape=[16,16,3]"]),
    ("resunet", "models/resunet.dl", ["--data_size=16", "--widths=[8,16,16,16]", "--norm_groups=4", "--heads=2"]),
    ("convnext", "models/convnext.dl",
     ["--img_size=[24,32]", "--n_in_channels=3", "--n_out_channels=2", "--embed_dim=48", "--depth=1"]),
    ("fno", "models/field/fno.dl", ["--width=6", "--modes=3", "--layers=2", "--hidden=16", "--size=14"]),
    ("lstm", "models/field/lstm.dl", ["--days=9", "--forcings=3", "--attributes=2", "--hidden=20"]),
    ("cnn_regressor", "models/cnn_regressor.dl", ["--data_size=16", "--hidden=24", "--depth=3"]),
    ("cnn_classifier", "models/cnn_classifier.dl", ["--input_shape=[16,16,3]"]),
    ("bf16", "models/vit.dl",
     ["--img_size=[16,24]", "--n_in_channels=3", "--n_out_channels=2", "--embed_dim=48", "--depth=1", "--num_heads=4",
      "--amp_mode=bf16"]),
    ("small", "tests/data/small.dl", ["--data_size=16"]),
    ("language", "tests/data/language.dl", []),
    ("products", "tests/data/products.dl", []),
    *((os.path.basename(p)[:-3], os.path.relpath(p, ROOT),
       ["--local_batch_size=2"] if folder == "import" or "N=2" in open(p).read() else [])
      for folder in ("verify", "layers", "import") for p in sorted(glob.glob(f"{ROOT}/tests/data/{folder}/*.dl"))),
]
OF_TARGETS = {"kinks": "t", "seeded": "t"}  # models whose outputs need a target: no prediction has one
WAYS = [(STRICT + ["-O2"], None), (STRICT + ["-O3", "-march=native"], NATIVE), (["-O2"], None), (["-O0"], None),
        (["-Os", "-std=gnu17", "-fPIC"], None)]


def recipes():
    """The cookbook's models, as files."""
    text = "".join(open(page).read() for page in sorted(glob.glob(f"{ROOT}/docs/reference/cookbook*.md")))
    for name, model in re.findall(r"```dl file=(\S+)\.dl[^\n]*\n(.*?)```", text, re.S):
        with open(here(f"recipe_{name}.dl"), "w") as f:
            f.write(model)
        yield f"recipe_{name}", here(f"recipe_{name}.dl"), []


def check_models():
    for number, (name, model, args) in enumerate([*MODELS, *recipes()]):
        if not takes(number):
            continue
        net = make(name, model, args)
        if name == "cnn_regressor":
            for key in "off", "auto":
                folder = export(net, f"--winograd={key}")
                text = open(f"{folder}/{stem(folder)}.c").read()
                check((" winograd_item(&" in text) == (key == "auto"), f"the exported way of winograd: {key}")
        if name in OF_TARGETS:
            run([DLC, "export", net["path"], "-o", "c_none", "--as=c", *net["args"]], status=3,
                says=f"made of its target '{OF_TARGETS[name]}'")
            continue
        folder = export(net)
        if folder:  # of inputs that only the loss reads, the network has none
            net["inputs"] = {n: x for n, x in net["inputs"].items() if n in arrays_of(folder)}
            if name == "cells":
                text = open(f"{folder}/{stem(folder)}.c").read()
                rounds = re.findall(r"long round = 0; round < (\d+)", text)  # the first step reads the start
                check(rounds.count("6") >= 3, f"the steps of a scan are a loop: {rounds}")
        ways = [(target, ["-O2" if i else "-O3", *flags])
                for i, (target, flags) in enumerate(FLAGS.items())] + [(NATIVE, ["-O3", "-march=native"])]
        for cc, (target, flags) in with_compilers(ways, number) if folder else []:
            compare(net, folder, cc, target, STRICT + flags)


# ---- a trained network, whose data are normalised ----

def train():
    """A run on normalised data, some of which are missing."""
    x = (5 + 2 * random.standard_normal((24, 3, 24))).astype("f4")
    t = np.stack([x.mean(1) * 3 - 4, x[:, 0] - x[:, 1]], 1).astype("f4")
    x[3, 1, 5:9] = x[0, 0, 0] = np.nan
    with h5py.File(here("d.h5"), "w") as f:
        f["x"], f["t"], f["k"] = x, t, random.integers(0, 5, 24)
        f["Wide_Net"] = random.integers(-4, 9, (24, 4)).astype("f8") / 8
        f["W"] = random.standard_normal((24, 4)).astype("f4")
    with open(here("wide.dl"), "w") as f:
        f.write(TRAINED)
    with open(here("wide.yaml"), "w") as f:
        f.write("""base:
  local_batch_size: 4
  num_iters: 6
  start_lr: 1.0e-3
  expdir: runs
  data:
    inputs: {x: {file: d.h5, array: x, normalize: standardize, nan: 0.25}, k: 'd.h5:k', W: 'd.h5:W', \
        Wide_Net: 'd.h5:Wide_Net'}
    targets: {t: {file: d.h5, array: t, normalize: standardize}}
    split: {valid: 0.25}
""")
    if run([DLRUN, "wide.dl", "--yaml_config=wide.yaml"]) is None:
        return None
    return os.path.dirname(glob.glob(here("runs", "**", "checkpoints"), recursive=True)[0])


def check_trained():
    """Normalisation, missing values, several inputs and outputs of several types, from anywhere."""
    path = train()
    if path is None:
        return None
    shutil.move(path, here("moved"))
    for name in ("wide.dl", "wide.yaml"):
        os.remove(here(name))
    with h5py.File(here("d.h5")) as f:
        inputs = {n: f[n][()] for n in ("x", "k", "W", "Wide_Net")}
    with h5py.File(here("wide.h5"), "w") as f:
        for n, x in inputs.items():
            f[n] = x
    net = {"name": "wide", "path": here("moved"), "args": [], "inputs": inputs}
    folder = export(net)
    for cc, (flags, target) in with_compilers(WAYS, 0) if folder else []:
        compare(net, folder, cc, target or "generic", flags)
    return net, folder


# ---- names ----

def check_names():
    """Networks whose names others have: a header of C, a header of POSIX, the example."""
    for number, name in enumerate(("Signal", "Memory", "Example")):
        with open(here("named.dl"), "w") as f:
            f.write(f"model {name}():\n    input x: f32[N, C=3]\n    target t: f32[N, C=3]\n"
                    "    y = x |> linear(3) @a\n    output y\n    loss = mse_loss(y, t)\n")
        net = {**make(name.lower(), here("named.dl"), []), "outputs": 1}
        folder = export(net)
        if not folder:
            continue
        n, (main,) = stem(folder), glob.glob(folder + "/example*.c" if name != "Example" else folder + "/*_main.c")
        with open(main) as f, open(here("with_headers.c"), "w") as g:
            g.write(f"#include <signal.h>\n#include <memory.h>\n{f.read()}\nint last_signal(void);\n"
                    "int last_signal(void) { return memcmp(\"a\", \"a\", 1) ? SIGINT : SIGTERM; }\n")
        cc = COMPILERS[(DRAW + number) % len(COMPILERS)]
        got = example(net, compile_c(folder, cc, STRICT + ["-O2"],
                                     sources=[f"{folder}/{n}.c", f"{folder}/{n}_weights.c", here("with_headers.c")]))
        want = predict(net, cc, "generic")
        check(got and want and got[0] == want["y"].tobytes(), f"a network of the name {name}")


# ---- the files ----

def check_files(net, folder):
    n = stem(folder)
    text = open(f"{folder}/{n}.c").read() + open(f"{folder}/{n}.h").read()
    includes = set(re.findall(r"^ *# *include *(.*)", text, re.M))
    check(includes <= {"<stdint.h>", "<stddef.h>", f'"{n}.h"'}, f"includes of {n}.c and {n}.h: {includes}")
    check(sorted(os.listdir(folder)) ==
          sorted([f"{n}.c", f"{n}.h", f"{n}.f90", f"{n}_weights.c", f"{n}_weights.c.bin", "CMakeLists.txt", "example.c",
                  "README"]),
          f"the folder has {os.listdir(folder)}")
    if shutil.which("g++"):
        run(["g++", "-std=c++17", "-pedantic", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", f"{folder}/{n}.h"])
    for cc in COMPILERS:
        compile_c(folder, cc, STRICT + ["-O2"])
        objects = [here(f"{n}.o"), here(f"{n}_weights.o")]
        symbols = [line.split() for line in (run(["nm", "-g", *objects]) or "").splitlines()
                   if re.search(r" [A-Za-z] ", line)]
        made = {s[-1] for s in symbols if s[-2] != "U"}
        needed = {s[-1] for s in symbols if s[-2] == "U"} - made
        check(f"{n}_predict" in made and all(m.startswith(n + "_") for m in made), f"{cc}: symbols {made}")
        check(needed <= {"memcpy", "memset", "memmove",
                         *(f"{f}{k}" for f in "exp log expm1 log1p tanh erf pow sin cos floor sqrt fmod".split()
                           for k in ("", "f")),
                         "_GLOBAL_OFFSET_TABLE_"}, f"{cc}: it needs {needed}")
        writable = re.findall(r"^ +\d+ (\.(?:data|bss|tdata|tbss)\S*) +([0-9a-f]+)",
                              run(["objdump", "-h", *objects]) or "", re.M)
        check(all(int(size, 16) == 0 or ".rel.ro" in name for name, size in writable), f"{cc}: writable {writable}")


def check_mismatch(folder):
    """Weights of another CPU's kernels do not link."""
    n = stem(folder)
    if len(FLAGS) > 1:
        run([COMPILERS[0], "-O1", *FLAGS["avx2"], "-c", f"{folder}/{n}_weights.c", "-o", here("other.o")])
        run([COMPILERS[0], "-O1", f"-I{folder}", f"{folder}/{n}.c", f"{folder}/example.c", here("other.o"), "-lm", "-o",
             here("mismatch")], status=1,
            says=f"undefined reference to `{n}_weights_generic'")


def write_for(name, folder, text):
    n = stem(folder)
    with open(here(name), "w") as f:
        f.write(text.replace("NAME_p", n + "_p").replace("NAME.h", n + ".h").replace("NAME_",
                                                                                     n.upper() +
                                                                                     "_").replace("NAME", n))
    return here(name)


def check_threads(folder):
    n = stem(folder)
    sources = [f"{folder}/{n}.c", f"{folder}/{n}_weights.c", write_for("threads.c", folder, THREADS)]
    for cc, flags in with_compilers(([], ["-fsanitize=thread"]), 1):
        program = compile_c(folder, cc, ["-O2", *flags], sources=sources)
        check(program and run([program], env={}) is not None, f"{n} in two threads, {cc} {flags}")


def check_sanitized(net, folder):
    """Nothing outside the caller's memory, no undefined behaviour; work is a block of exactly the size."""
    flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    for cc, target in with_compilers(FLAGS, 2):
        got = example(net, compile_c(folder, cc, ["-O1", *flags, *FLAGS[target]]))
        check(got is not None, f"{net['name']} under sanitizers, {cc} {target}")


def check_fortran(net, folder):
    n = stem(folder)
    if not shutil.which("gfortran"):
        return
    got = example(net, compile_c(folder, "gcc", STRICT + ["-O2"]))
    with open(here("main.f90"), "w") as f:
        f.write(FORTRAN.replace("NAME", n))
    run(["gfortran", "-std=f2018", "-Wall", "-Werror", f"{folder}/{n}.f90", "main.f90", f"{n}.o", f"{n}_weights.o",
         "-lm", "-o", "fortran"])
    run([here("fortran")])
    check(got and open(here("out_f"), "rb").read() == got[0], f"{n} in Fortran: the bits of C")


def check_cmake(net, folder):
    n = stem(folder)
    if not shutil.which("cmake"):
        return
    run(["cmake", "-S", folder, "-B", here("cmake"), "-DCMAKE_BUILD_TYPE=Release"])
    run(["cmake", "--build", here("cmake")])
    truth = predict(net, "cc", NATIVE)
    got = example(net, here("cmake", f"{n}_example"))
    check(got and truth and got[0] == next(iter(truth.values())).tobytes(), f"{n} by CMake: the bits of predict")


def check_refusals(net):
    path, args = net["path"], net["args"]
    base = [DLC, "export", path, *args, "--as=c"]
    os.mkdir(here("full")), open(here("full", "file"), "w").close()
    run([*base, "-o", "full"], status=4, says="full")
    run([*base, "-o", "none/there"], status=4, says="none")
    run([*base, "-o", "c_bad", "--target=cpu:fast"], status=2,
        says="--target=cpu:fast: of cpu:generic, cpu:avx2 and cpu:avx512")
    run([*base, "-o", "c_bad", "--target=cpu:generic,"], status=2, says="--target")
    check(os.listdir(here("full")) == ["file"] and not os.path.exists(here("c_bad")) and not glob.glob(here(".dlc-*")),
          "a refused export leaves nothing")
    folder = export({**net, "name": "one"}, "--target=cpu:generic")
    n = stem(folder)
    text = open(f"{folder}/{n}.c").read()
    check("cpu:generic" in text and "__AVX2__ &&" not in text, "--target=cpu:generic: no other")
    if "avx2" in FLAGS:
        folder = export({**net, "name": "one"}, "--target=cpu:avx2")
        run(["gcc", "-c", f"{folder}/{n}.c", "-o", here("one.o")], status=1, says="compile for cpu:avx2")


if __name__ == "__main__":
    check_models()
    small = make("threads", "tests/data/small.dl", ["--data_size=8"])
    small_c = export(small)
    if small_c and check(len(COMPILERS) > 0, "a compiler is there"):
        small["outputs"] = 1
        check_files(small, small_c)
        check_mismatch(small_c)
        check_threads(small_c)
        check_sanitized(small, small_c)
        check_fortran(small, small_c)
        check_cmake(small, small_c)
        check_refusals(small)
    check_names()
    trained = check_trained()
    if trained:
        check_files(*trained)
    finish()
