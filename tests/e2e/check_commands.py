"""What the commands of dlc refuse, and that they warn once.

check_commands.py DLC     from the project's root; needs nothing but Python's own library
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

from checks import CACHE, TMP, check, finish

DLC = os.path.abspath(sys.argv[1])
MODEL = "tests/data/small.dl"


def dlc(*args):
    return subprocess.run([DLC, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **CACHE})


def compile_small(*args):
    return dlc("compile", MODEL, "--data_size=16", *args)


MISSING = {"DLC_NVRTC": "/nonexistent/libnvrtc.so.13", "DLR_NCCL": "/nonexistent/libnccl.so.2",
           "DLR_CUBLASLT": "/nonexistent/libcublasLt.so.13",
           "DLR_CUDNN": "/nonexistent/libcudnn.so.9"}
# A driver's library as far as --version asks it: two devices, of which the second does not answer.
DRIVER = r"""
#include <stdio.h>
#include <string.h>
int cuDriverGetVersion(int *v) { *v = 13010; return 0; }
static int count(int *n) { *n = 2; return 0; }
static int get(int *d, int n) { *d = n; return n ? 999 : 0; }
static int name(char *to, int size, int d) { snprintf(to, size, "NVIDIA\x1b Imaginary"); return 0; }
static int attribute(int *v, int which, int d) { *v = which == 75 ? 9 : 0; return 0; }
static int memory(unsigned long *bytes, int d) { *bytes = 143771ul << 20; return 0; }
static int text(int r, const char **t) { *t = "SOMETHING"; return 0; }
static int any(void) { return 0; }
int cuGetProcAddress_v2(const char *n, void **f, int v, unsigned long g, int *s) {
    static const struct { const char *name; void *at; } all[] = {
        {"cuDriverGetVersion", cuDriverGetVersion}, {"cuDeviceGetCount", count},
        {"cuDeviceGet", get}, {"cuDeviceGetName", name}, {"cuDeviceGetAttribute", attribute},
        {"cuDeviceTotalMem", memory},
        {"cuGetErrorName", text}, {"cuGetErrorString", text}};
    *f = any;
    for (int i = 0; i < 8; i++) if (!strcmp(n, all[i].name)) *f = all[i].at;
    return 0;
}
"""


def test_version():
    """What of CUDA is found at run time, by the same binary where there is none and where there is."""
    source, library = f"{TMP}/driver.c", f"{TMP}/libcuda.so.1"
    with open(source, "w") as f:
        f.write(DRIVER)
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    built = compiler and subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", library, source]).returncode == 0
    for program, title in ((DLC, "dlc"), (os.path.join(os.path.dirname(DLC), "dlrun"), "dlrun")):
        r = subprocess.run([program, "--version"], capture_output=True, text=True, env={**os.environ, **MISSING})
        check(r.returncode == 0
              and re.match(rf"{title} \d+\.\d+\.\d+(-dev)?\nno NVRTC\nno NCCL \(libnccl\.so\.2\)\nno cuBLASLt "
                           r"\(libcublasLt\.so\)\nno cuDNN \(libcudnn\.so\.9\)\n(no driver \(libcuda\.so\.1\)|no "
                           r"GPU: |driver of CUDA )", r.stdout),
              f"{title} --version: {r.returncode} {r.stdout} {r.stderr}")
        r = subprocess.run([program, "--version"], capture_output=True, text=True)
        check(re.search(r"^(no NVRTC|NVRTC 1[23]\.\d+ \(/.*libnvrtc.*\))$", r.stdout, re.M),
              f"{title} --version: {r.stdout}")
        check(re.search(r"^(no NCCL \(libnccl\.so\.2\)|NCCL 2\.\d+\.\d+ \(.*nccl.*\))$", r.stdout, re.M),
              f"{title} --version: {r.stdout}")
        check(re.search(r"^(no cuBLASLt \(libcublasLt\.so\)|cuBLASLt 1[23]\.\d+\.\d+ \(.*cublasLt.*\))$", r.stdout,
                        re.M), f"{title} --version: {r.stdout}")
        check(re.search(r"^(no cuDNN \(libcudnn\.so\.9\)|cuDNN 9\.\d+\.\d+ \(.*cudnn.*\))$", r.stdout, re.M),
              f"{title} --version: {r.stdout}")
        if not built:
            continue
        r = subprocess.run([program, "--version"], capture_output=True, text=True,
                           env={**os.environ, "LD_LIBRARY_PATH": TMP})
        want = ["driver of CUDA 13.1, 2 devices",
                "device cuda:0: NVIDIA\\x1B Imaginary, compute capability 9.0, 143771 MiB",
                "device cuda:1: does not answer: SOMETHING (SOMETHING)"]
        check(r.returncode == 0 and r.stdout.splitlines()[-3:] == want,
              f"{title} --version with a driver: {r.returncode} {r.stdout} {r.stderr}")


def test_filter():
    """--dump-filter prints what it names, and what it names is there."""
    r = compile_small("--dump=kernel", "--dump-filter=@train_k1")
    check(r.returncode == 0 and re.findall(r"^kernel @(\w+)", r.stdout, re.M) == ["train_k1"],
          f"one kernel: {r.stdout[:300]}")
    r = compile_small("--dump-after=simplify", "--dump-filter=@eval")
    check(r.returncode == 0 and set(re.findall(r"^graph @(\w+)", r.stdout, re.M)) == {"eval"},
          f"one graph: {r.stdout[:300]}")
    for args, pattern in ((["--dump=kernel", "--dump-filter=@nope"], r"@nope: no kernel has this name$"),
                          (["--dump=kernel", "--dump-filter=@train_k99"], r"did you mean '@train_k\d+'\?$"),
                          (["--dump=ir", "--dump-filter=trian"],
                           r"@trian: no graph or kernel has this name; did you mean '@train'\?$"),
                          (["--dump-after=fuse", "--dump-filter=@nope"], r"no graph or kernel"),
                          (["--dump=plan", "--dump-filter=@train"],
                           r"goes with --dump=ir, --dump=kernel and --dump-after$"),
                          (["--dump-filter=@train"], r"goes with --dump=ir, --dump=kernel and --dump-after$")):
        r = compile_small(*args)
        check(r.returncode == 2 and r.stdout == "" and re.search(pattern, r.stderr.strip()),
              f"{args}: exit {r.returncode}, {r.stdout[:100]} {r.stderr}")


def test_low():
    """`dlc opt` runs the passes of mixed precision, too."""
    graph = "tests/golden/passes/low_weights_views.in.dlir"
    for args, text in (([], "contract $x, %"), (["--low-products"], "copy $bf16.m of $m")):
        r = dlc("opt", "--passes=cast_weights_once", "--low=bf16", *args, graph)
        check(r.returncode == 0 and text in r.stdout, f"opt --low {args}: {r.stdout[-300:]} {r.stderr}")
    r = dlc("opt", "--passes=amp", "--low=f16", "tests/golden/passes/amp_none.in.dlir")
    check(r.returncode == 0 and "f16[N=2, E=3]" in r.stdout, f"opt --low=f16: {r.stdout} {r.stderr}")
    r = dlc("opt", "--passes=amp", "--low=f8", graph)
    check(r.returncode == 2 and "--low=f8: bf16 or f16" in r.stderr, f"opt --low=f8: exit {r.returncode} {r.stderr}")


def test_refused():
    for args, pattern in ((["compile", MODEL, "--data_size=16", "-o", ""],
                           "-o needs a value that is not empty: -o FILE"),
                          (["compile", MODEL, "--model=other.dl"],
                           f"one model at a time: '{MODEL}' and --model=other.dl"),
                          (["bench", MODEL, "other.dl"], f"one model at a time: '{MODEL}' and 'other.dl'"),
                          (["verify", MODEL, "--model=other.dl"],
                           f"one model at a time: '{MODEL}' and --model=other.dl")):
        r = dlc(*args)
        check(r.returncode == 2 and pattern in r.stderr, f"{args}: exit {r.returncode} {r.stderr[-300:]}")


def test_check_with_keys():
    """`dlc check MODEL.dl --key=value` looks at those sizes: what fits one batch does not fit another."""
    model = f"{TMP}/keys.dl"
    with open(model, "w") as f:
        f.write("model M(h=7):\n    input x: f32[N, F=8]\n    target t: f32[N, F=8]\n"
                "    param u: [F=8, J=8] ~ normal(0, 0.3)\n"
                "    y = sum(u * ((x |> linear(h) @l |> relu) as [H, J]), over=J)\n    output y\n"
                "    loss = mean((y - 1)**2) + mean((x - t)**2)\n")
    for keys, status, text in (([], 3, "'u' has J=8, but the second operand has J="), (["--h=8"], 0, f"{model}: ok\n"),
                               (["--h=7"], 3, "J=7"),
                               (["--hh=8"], 2, "unknown option '--hh'; did you mean '--h'?")):
        r = dlc("check", model, *keys)
        check(r.returncode == status and text in (r.stderr if status else r.stdout),
              f"{keys}: exit {r.returncode} {r.stdout}{r.stderr}")


def test_not_compilable():
    """What only a later stage refuses is said by `check` as by `compile`: at its place, by its code, and nothing is
    written."""
    conv = "conv(4, 3, pad=1) @c"
    for code, where, x, body, text in (
        ("E0803", "5:39", "f32[N, T=4, E=8]",
         "x |> linear(8) @l\n    metric again = mean(((x as i32) * (3000000000 as i32)) as f32)",
         "the constant 3e+09 is no number of i32"),
        ("E0804", "4:14", "f32[N, C=4, W=1073741825]", f"x |> {conv}", "an axis of 'conv' has more than 2^30 elements"),
    ):
        model, plan = f"{TMP}/refused.dl", f"{TMP}/refused.dlp"
        with open(model, "w") as f:
            f.write(f"model M():\n    input x: {x}\n    target t: {x}\n    y = {body}\n"
                    "    output y\n    loss = mean((y - t)**2)\n")
        for args in (["check", model], ["check", model, "--local_batch_size=3"], ["compile", model, "-o", plan]):
            r = dlc(*args)
            first = (r.stderr + r.stdout).splitlines()[0]
            check(r.returncode == 3 and first.startswith(f"{model}:{where}: error: {text}")
                  and first.endswith(f"[DL-{code}]")
                  and not os.path.exists(plan),
                  f"{args[0]} of what {code} refuses: exit {r.returncode} {r.stdout}{r.stderr}")


def test_json_diagnostics():
    """`dlc check --json`: places, codes and messages as the text has them, of all files; errors without a place too."""
    bad, good, odd = f"{TMP}/bad.dl", f"{TMP}/good.dl", f"{TMP}/odd\u00e9.dl"
    with open(bad, "w") as f:
        f.write("model B():\n    input x: f32[N, C=3]\n    \n    y = x |> linaer(4)  # \u00e9\n    z = x + nope\n"
                "    output y\n    loss = mean(y)\n")
    with open(good, "w") as f:
        f.write("model G():\n    input x: f32[N, C=3]\n    y = x |> linear(4)\n    output y\n    loss = mean(y)\n")
    shutil.copy(bad, odd)
    r = dlc("check", "--json", bad, good, f"{TMP}/none.dl", odd)
    got = json.loads(r.stdout)["diagnostics"]
    check(r.returncode == 3 and not r.stderr, f"check --json: exit {r.returncode} {r.stderr}")
    text = dlc("check", bad).stderr
    lines = re.findall(rf"^{re.escape(bad)}:(\d+):(\d+): (error|warning): (.*) \[(DL-\w+)\]$", text, re.M)
    mine = [(str(g["line"]), str(g["column"]), g["severity"], g["message"], g["code"]) for g in got if g["file"] == bad]
    check(sorted(mine) == sorted(lines) and len(mine) == 2, f"{mine} against {lines}")
    check((got[0]["line"], got[0]["column"], got[0]["end_line"], got[0]["end_column"]) == (4, 14, 4, 20)
          and "linear" in got[0]["help"], f"{got[0]}")
    check([g["message"] for g in got if g["file"] == odd] == [g["message"] for g in got if g["file"] == bad], "by file")
    absent = [g for g in got if g["file"].endswith("none.dl")]
    check(len(absent) == 1 and absent[0]["line"] is None and absent[0]["code"] is None
          and "none.dl" in absent[0]["message"], f"an absent file: {absent}")
    r = dlc("check", good, "--json")
    check(r.returncode == 0 and r.stdout == '{"diagnostics": []}\n', f"no fault: {r.stdout}")
    r = dlc("check", good, "--json", "--local_batch_size=3")
    check(r.returncode == 0 and json.loads(r.stdout) == {"diagnostics": []}, f"with keys: {r.stdout} {r.stderr}")
    r = dlc("check", bad, "--json", "--local_batch_size=3")
    check(r.returncode == 3 and json.loads(r.stdout)["diagnostics"][0]["code"] and not r.stderr,
          f"a fault, with keys: {r.stdout} {r.stderr}")
    r = dlc("check", good, "--json", "--global_batch_size=7", "--accumulate=2")
    one = json.loads(r.stdout)["diagnostics"]
    check(r.returncode == 2 and len(one) == 1 and one[0]["code"] is None and "a multiple of 2 can" in one[0]["message"],
          f"a fault of a key: {r.stdout} {r.stderr}")


def other(program, *args):
    return subprocess.run([os.path.join(os.path.dirname(DLC), program), *args], capture_output=True, text=True)


def test_help():
    """Three levels: a screen, the keys of a group with the words that they may have, and all of it; none too wide."""
    for program, command in (("dlc", []), ("dlc", ["compile"]), ("dlc", ["summary"]), ("dlrun", []),
                             ("dlrun", ["predict"]), ("dlrun", ["sweep"]), ("dlrun", ["agent"])):
        short, everything = other(program, *command, "--help"), other(program, *command, "--help=all")
        for r in (short, everything):
            lines = r.stdout.splitlines()
            check(r.returncode == 0 and not r.stderr and max(map(len, lines)) <= 120,
                  f"{program} {command}: {r.returncode} {r.stderr} {max(lines, key=len)}")
        check(len(short.stdout.splitlines()) <= 40 and "--help=all" in short.stdout,
              f"{program} {command} --help has {len(short.stdout.splitlines())} lines")
        check(("DLR_CACHE_DIR" in everything.stdout) == (command not in (["sweep"], ["agent"]))
              and "DLR_CACHE_DIR" not in short.stdout,
              f"{program} {command}: the environment")
        if program == "dlc" and not command:
            continue
        check("global_batch_size" in everything.stdout and "global_batch_size" not in short.stdout,
              f"{program} {command}: keys")
        group = other(program, *command, "--help=training")
        text = re.sub(r"\n {28,}", " ", group.stdout)
        check(group.returncode == 0 and "data_loader_config" not in text
              and re.search(r"^  amp_mode .*mixed precision, and in what; one of none, fp16, bf16", text, re.M),
              f"{program} {command} --help=training: {text[:300]}")
        r = other(program, *command, "--help=trainin")
        check(r.returncode == 2 and "did you mean 'training'?" in r.stderr, f"--help=trainin: {r.stderr}")
    both = re.sub(r"\s+", " ", "".join(other("dlrun", f"--help={g}").stdout
                                      for g in ("model", "training", "data", "run", "ranks")))
    everything = other("dlrun", "--help=all").stdout.partition("its own, too:")[2].partition("\nEnvironment:")[0]
    keys = re.sub(r"\s+", " ", everything)
    check(both.strip() == keys.strip(), "the groups are all keys")


def test_nearest():
    """An unknown command is one line with the nearest; no name is offered that does another thing."""
    for program, word, text in (("dlc", "chek", "did you mean 'check'?"),
                                ("dlc", "train", "no command 'train'; `dlc --help`"),
                                ("dldata", "inspct", "did you mean `dldata inspect`?")):
        r = other(program, word)
        check(r.returncode == 2 and r.stderr.count("\n") == 1 and not r.stdout and text in r.stderr,
              f"{program} {word}: {r.returncode} {r.stderr}")
    r = other("dlrun", "--amp")
    check(r.returncode == 2 and "'--amp_mode'" in r.stderr and "mmap" not in r.stderr, f"--amp: {r.stderr}")
    with open(f"{TMP}/ctc.dl", "w") as f:
        f.write("model M():\n    input x: f32[N, C=3]\n    target t: f32[N, C=3]\n    y = x |> linear(3)\n"
                "    output y\n    loss = ctc_loss(y, t)\n")
    r = dlc("check", f"{TMP}/ctc.dl")
    check(r.returncode == 3 and "ctc_loss" in r.stderr and "did you mean" not in r.stderr, f"ctc_loss: {r.stderr}")


def test_model_of_configuration():
    """A relative model of a configuration is next to the configuration's file, or next to its folder config; else from
    the current directory on. The error names the file's line."""
    text = "model M():\n    input x: f32[N, C={}]\n    y = x |> linear(1) @l\n    output y\n    loss = mean(y**2)\n"
    place = f"{TMP}/project"
    os.makedirs(f"{place}/sub/config")
    for path, size in ("here.dl", 3), ("sub/here.dl", 4), ("sub/near.dl", 5):
        with open(f"{place}/{path}", "w") as f:
            f.write(text.format(size))
    for path, model in (("sub/a.yaml", "here.dl"), ("sub/config/b.yaml", "near.dl"), ("sub/c.yaml", "../here.dl"),
                        ("sub/config/d.yaml", "none.dl"), ("sub/e.yaml", f"{place}/here.dl"), ("f.yaml", "here.dl"),
                        ("sub/g.yaml", "sub/near.dl")):
        with open(f"{place}/{path}", "w") as f:
            f.write(f"base:\n  model: {model}\n  local_batch_size: 1\n")

    def parameters(*args, cwd=place):
        r = subprocess.run([DLC, "summary", "--json", *args], capture_output=True, text=True, cwd=cwd,
                           stdin=subprocess.DEVNULL, env={**os.environ, **CACHE})
        return json.loads(r.stdout)["parameters"] if r.returncode == 0 else (r.returncode, r.stderr)
    for args, want in ((["sub/a.yaml"], 5), (["sub/config/b.yaml"], 6), (["sub/c.yaml"], 4), (["sub/e.yaml"], 4),
                       (["f.yaml"], 4), (["sub/g.yaml"], 6), (["sub/near.dl", "sub/a.yaml"], 6),
                       (["sub/a.yaml", "--model=here.dl"], 4)):
        got = parameters(*args)
        check(got == want, f"{args}: {got}, not {want}")
    check(parameters("a.yaml", cwd=f"{place}/sub") == 5 and parameters(f"{place}/sub/a.yaml", cwd="/") == 5,
          "wherever the command stands")
    got = parameters("sub/config/d.yaml")
    fault = "sub/config/d.yaml:2:10: error: model: no file none.dl: not under the current directory"
    check(got[0] == 3 and fault in got[1]
          and "nor in this file's folder" in got[1], f"a model that is nowhere: {got}")


def test_warned_once():
    """Each warning of the model once, for a command that builds it twice as well; an unknown key is an error, once."""
    model, yaml = f"{TMP}/w.dl", f"{TMP}/k.yaml"
    with open(yaml, "w") as f:
        f.write("base: {seed: 1}\ntiny: {seed: 1}\nwrong: {sead: 1}\n")
    with open(model, "w") as f:
        f.write("model M():\n    input x: f32[N, C=2, H=4, W=4]\n    input z: f32[N, C=2, H=4, W=4]\n"
                "    target t: f32[N, C=2, H=4, W=4]\n"
                "    y = x |> conv(2, 3, pad=1) @c\n    output y\n    loss = mean((y - t)**2)\n")
    for command in ("compile", "verify"):
        for name in ([], ["--config=base"]):
            r = dlc(command, model, f"--yaml_config={yaml}", "--local_batch_size=1", *name)
            check(r.returncode == 0 and r.stderr.count("[DL-W0701]") == 1,
                  f"{command} {name}: exit {r.returncode} {r.stderr}")
        r = dlc(command, model, f"--yaml_config={yaml}", "--config=wrong")
        check(r.returncode == 3 and r.stderr == f"{yaml}:3:9: error: unknown key 'sead'; did you mean 'seed'?\n",
              f"{command}: {r.stderr}")
    r = dlc("compile", MODEL, "--data_size=16")
    check(r.returncode == 0 and r.stderr == "",
          f"a model without a configuration file is nothing to warn of: {r.stderr}")


def test_verified_norms():
    """The norms are kernels as others: of a run whose gradients are clipped by one of them, too."""
    for clip in ("0", "1e-3"):
        r = dlc("verify", MODEL, "--data_size=8", "--log_norms", f"--clip_grad_norm={clip}")
        plain = dlc("verify", MODEL, "--data_size=8", f"--clip_grad_norm={clip}")
        results = [int(re.search(r"train +\d+ kernels, (\d+) results", x.stdout).group(1)) for x in (r, plain)]
        check(r.returncode == 0 and "all agree" in r.stdout and results[0] > results[1],
              f"clip {clip}: exit {r.returncode} {results} {r.stdout}{r.stderr}")


def test_judged():
    """verify says of each kind how much it judged, and of what it did not, why; and the text says the same."""
    r = dlc("verify", MODEL, "--data_size=8", "--json")
    said = json.loads(r.stdout)
    check(r.returncode == 0 and said["off"] == []
          and all(said["judged"][k] > 0 for k in ("kernels", "gradients", "updates", "composites", "guards")), r.stdout)
    text = dlc("verify", MODEL, "--data_size=8").stdout
    numbers = [int(n)
               for n in re.search(r"judged: (\d+) kernels between (\d+) guard zones, (\d+) ops .*, (\d+) gradients, "
                                  r"(\d+) updates", text).groups()]
    check(numbers == [said["judged"][k] for k in ("kernels", "guards", "composites", "gradients", "updates")],
          f"{numbers} {said}")
    r = dlc("verify", MODEL, "--data_size=8", "--json", "--kernels")
    said = json.loads(r.stdout)
    check(said["judged"]["gradients"] == 0 and said["judged"]["guards"] > 0 and "--kernels" in said["not_judged"][0],
          r.stdout)


def test_calm():
    """What is right is not off: a maximum of ties in another order, a mean of nothing; and nothing next to an axis of
    1e9 takes no time."""
    models = {"ties": "    param p: [C=4] ~ normal(0, 0.1)\n    a = gather(x, argmax(x, over=C), over=C)\n"
                      "    v = min(a, a)\n    output v\n"
                      "    loss = mean(abs(v + sum(p) - v))\n    metric m = mean(v)\n",
              "empty": "    z = roll(x, 2, over=N) + x\n    output z\n    loss = mean(cross_entropy(z, argmax(z, "
                       "over=C)))\n"}
    for name, axes in (("ties", "C=4, H=9, W=13"), ("empty", "C=1000000007, H=7, W=0")):
        path = os.path.join(TMP, f"{name}.dl")
        with open(path, "w") as f:
            f.write(f"model M():\n    input x: f32[N, {axes}]\n{models[name]}")
        for target in ("cpu:generic", "cpu"):
            r = dlc("verify", path, "--local_batch_size=2", f"--target={target}")
            check(r.returncode == 0 and "all agree" in r.stdout,
                  f"{name}, {target}: exit {r.returncode} {r.stdout} {r.stderr}")


def test_largest():
    """--memory finds the largest batch that fits: one more does not; 16 bits leave room for more, where training and
    not evaluation, whose output is of 32 bits, takes the most."""
    r = compile_small("--memory=40MiB", "--json")
    found = json.loads(r.stdout)
    check(r.returncode == 0 and found["memory_bytes"] == 40 << 20, f"exit {r.returncode} {r.stdout} {r.stderr}")
    batch = {mode: f["batch"] for mode, f in found["largest_batch"].items()}
    check(min(batch.values()) > 1, f"{batch}")
    for mode, n in batch.items():
        peaks = [json.loads(compile_small("--json", f"--amp_mode={mode}",
                                          f"--local_batch_size={b}").stdout)["peak_bytes"] for b in (n, n + 1)]
        check(peaks[0] == found["largest_batch"][mode]["peak_bytes"] <= 40 << 20 < peaks[1], f"{mode}, {n}: {peaks}")
    apart = compile_small("--memory", "40MiB", "--local_batch_size", "7", "--amp_mode", "fp16", "--json")
    check(apart.returncode == 0 and apart.stdout == r.stdout,
          f"values as words of their own: {apart.stdout} {apart.stderr}")
    r = dlc("compile", "models/cnn_classifier.dl", "--memory=40MiB", "--json")
    deep = {mode: f["batch"] for mode, f in json.loads(r.stdout)["largest_batch"].items()}
    check(r.returncode == 0 and 1.5 * deep["none"] < min(deep["bf16"], deep["fp16"]), f"{deep}")
    r = compile_small("--memory=1KiB", "--json")
    check(r.returncode == 0 and json.loads(r.stdout)["largest_batch"]["none"]["batch"] == 0, f"{r.stdout} {r.stderr}")
    r = compile_small("--memory=much")
    check(r.returncode == 2 and "--memory=much: a size such as 8GiB" in r.stderr, f"exit {r.returncode} {r.stderr}")


def test_amp_counted():
    r = compile_small("--json", "--amp_mode=bf16")
    got = json.loads(r.stdout)
    check(got["amp"]["mode"] == "bf16" and got["amp"]["values"]["bf16"]["count"] > 0 and got["amp"]["bytes_saved"] > 0,
          f"{r.stdout}")
    check(got["cast_kernels"] == 0, f"{r.stdout}")
    plain = json.loads(compile_small("--json").stdout)
    check(plain["amp"]["bytes_saved"] == 0 and "bf16" not in plain["amp"]["values"], f"{plain}")


def test_refused_tiles():
    """Where the system lets nobody use AMX's tiles, float32's products are taken: such CPUs multiply bf16 otherwise at
    half their rate."""
    source, library = f"{TMP}/refuse.c", f"{TMP}/refuse.so"
    with open(source, "w") as f:
        f.write("long syscall(long number, ...) { return (void)number, -1; }")
    if subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", library, source]).returncode:
        return
    r = subprocess.run([DLC, "compile", MODEL, "--data_size=16", "--json"], capture_output=True, text=True,
                       env={**os.environ, "LD_PRELOAD": library})
    with open("/proc/cpuinfo") as f:
        tiles = " amx_bf16 " in f.read()
    target = json.loads(r.stdout)["target"]
    check(target == "cpu:avx512" if tiles else target != "cpu:amx_bf16",
          f"{target} of a CPU {'with' if tiles else 'without'} tiles")


def test_amp_saves():
    """What a step makes takes at most 60% of float32's bytes, at each model's peak, where weights have no copies."""
    for model in (["models/vit.dl", "--config=base", "--img_size=[360,720]", "--local_batch_size=1"],
                  ["models/unet.dl", "--local_batch_size=4"],
                  ["models/resnet.dl", "--small=true", "--input_shape=[32,32,3]", "--local_batch_size=64"],
                  ["models/cnn_classifier.dl", "--local_batch_size=64"]):
        size = {}
        for mode in ("none", "bf16"):
            r = dlc("compile", *model, f"--amp_mode={mode}", "--target=cpu:avx2", "--dump=memory")
            size[mode] = float(re.search(r"([\d.]+) MiB  \d+ values, of which", r.stdout)[1])
        check(size["bf16"] <= 0.6 * size["none"], f"{model[0]}: {size}")


def test_finiteness_fused():
    """fp16: no kernel reads a gradient again only to test it, but for sums by channel that a kernel around a
    contraction has left."""
    for model in sorted(glob.glob("models/*.dl")):
        r = dlc("compile", model, "--amp_mode=fp16", "--dump=kernel")
        kernels = re.findall(r"^kernel @(train_\w+)\((.*?)\) -> \((.*?)\) space\((.*?)^}", r.stdout, re.M | re.S)
        tests = [k for k in kernels if "{value=inf}" in k[3] and " = sum " in k[3]]
        check(r.returncode == 0 and tests,
              f"{model}: exit {r.returncode}, {len(tests)} of {len(kernels)} kernels test gradients")
        for name, reads, makes, body in tests:
            makes_more = any(re.findall(r"\[([^\]]+)\]", makes)) or " over(" in body or " = conv" in body
            by_channel = all("," not in axes for axes in re.findall(r"\[([^\]]*)\]", reads))
            check(makes_more or by_channel, f"{model}: @{name}({reads}) -> ({makes})")


def test_former_names():
    """A command's former name works, and says the new one."""
    for old, new in (("rehearse", "simulate-ranks"), ("scale", "estimate-scaling")):
        r = dlc(old, "--help")
        check(r.returncode == 0 and r.stdout == dlc(new, "--help").stdout, f"{old}: {r.stdout[:200]}")
        check(r.stderr == f"dlc: warning: `dlc {old}` is now called `dlc {new}`\n", f"{old}: {r.stderr}")


for test in [v for k, v in list(globals().items()) if k.startswith("test_")]:
    test()
finish()
