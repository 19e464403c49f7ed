"""Names that others chose: no file's or folder's name is run, or reaches a terminal as a command to it; and what the
compiler writes, compiles without a warning.

check_foreign.py BUILD     from the project's root; needs nothing but Python's own library
"""
import os
import shutil
import subprocess
import sys

from checks import ENV, TMP, check, finish

BUILD = os.path.abspath(sys.argv[1])
DLC, DLRUN, DLDATA = (os.path.join(BUILD, p) for p in ("cli/dlc", "cli/dlrun", "cli/dldata"))
SMALL = ["--data_loader_config=synthetic", "--data_size=16", "--local_batch_size=2", "--Nsamples=4", "--Nsamples_val=2",
         "--num_epochs=1", "--start_lr=1e-3"]
HOSTILE = ["d*/\n#ifndef Q\n#define Q\n__attribute__((constructor)) static void f(void) { __builtin_puts(\"RUN\" "
           "\"NING\"); }\n#endif\n",
           "\033]0;owned\007\033[31m", "a\\\nb", "\"quoted\"; $(touch owned) `id`", "\u202ereversed\u009b1m", "??/x",
           "%s%n%s"]


def run(*args, **env):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env={**ENV, **env})
    return done.returncode, done.stdout


def check_calm(out, what):
    text = out.decode(errors="surrogateescape")
    bad = {c for c in text if (ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"
           or ord(c) >= 0xDC80}
    check(not bad, f"{what}: {bad} on the terminal: {out[:300]}")


def check_names():
    source = open("tests/data/small.dl").read()
    for number, name in enumerate(HOSTILE):
        folder = os.path.join(TMP, f"{number}", name)
        os.makedirs(folder)
        model, broken = os.path.join(folder, "*.dl"), os.path.join(folder, "broken.dl")
        open(model, "w").write(source)
        open(broken, "w").write("model M(:\n")
        runs = [([DLC, "check", model], 0), ([DLC, "check", broken], 3), ([DLC, "check", model + "no"], 4),
                ([DLC, "compile", model, "--data_size=16"], 0), ([DLC, "compile", broken], 3),
                ([DLC, "compile", model, "--data_size=16", "--dump=plan"], 0),
                ([DLC, "compile", model, "--data_size=16", "--dump=ir"], 0),
                ([DLC, "compile", model, "--data_size=16", "--dump=source"], 0), ([DLC, "opt", broken], 3),
                ([DLC, "compile", model, "--data_size=16", "--target=" + name], 2), ([DLC, name], 2),
                ([DLRUN, model, *SMALL, f"--expdir={TMP}/run{number}"], 0), ([DLRUN, broken, *SMALL], 3),
                ([DLRUN, model, "--dry_run", *SMALL], 0), ([DLRUN, model, *SMALL, "--data_loader_config=" + name], 2),
                ([DLDATA, "inspect", model], 3), ([DLDATA, "inspect", model + "no"], None), ([DLDATA, name], 2)]
        for args, wanted in runs:
            code, out = run(*args)
            check(code == wanted if wanted is not None else 0 < code < 70, f"{args[:2]}: exit {code}: {out[-300:]}")
            check_calm(out, args[:2])
            check(b"RUNNING" not in out, f"{args[:2]}: a folder's name was run")
        log = open(f"{TMP}/run{number}/*-base/1GPU/00/out.log", "rb").read()
        check_calm(log, "out.log")


def check_warnings():
    """What is emitted, under the warnings of the project itself."""
    flags = {"cpu:amx_bf16": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mfma"],
             "cpu:avx512_bf16": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mfma"],
             "cpu:avx512": ["-mavx512f", "-mfma"], "cpu:avx2": ["-mavx2", "-mfma"], "cpu:generic": []}
    compilers, looked_at = [c for c in ("gcc", "clang") if shutil.which(c)], 0
    for model, size in (("models/unet.dl", 64), ("tests/data/small.dl", 16)):
        for target, more in flags.items():
            code, out = run(DLC, "compile", model, f"--data_size={size}", f"--target={target}", "--dump=source")
            if code == 5:
                continue  # not a target of this machine
            sources = out[out.index(b"#define LANES"):].split(b"#define LANES")[1:]
            for i, text in enumerate(sources):
                for cc in compilers:
                    looked_at += 1
                    done = subprocess.run([cc, "-std=gnu17", "-fsyntax-only", *more, "-Wall", "-Wextra", "-Werror",
                                           "-x", "c", "-"],
                                          input=b"#define LANES" + text, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT)
                    check(done.returncode == 0, f"{cc} on {model} for {target}: {done.stdout[:500]}")
    check(looked_at, "no source was compiled")


def check_help():
    for args in ([DLC, "--help=all"], [DLC, "compile", "--help=all"], [DLRUN, "--help=all"]):
        code, out = run(*args)
        for name in (b"DLR_CACHE_DIR", b"CC ", b"DLC_SKIP", b"NO_COLOR", b"TMPDIR"):
            check(code == 0 and name in out, f"{args}: no {name}")


def check_cache():
    """A compiler that lies is named and poisons nothing; a plan that does not load is compiled anew, and said."""
    folder, model = os.path.join(TMP, "lies"), "tests/data/small.dl"
    env = {"DLR_CACHE_DIR": folder}
    liar, other = os.path.join(TMP, "liar"), os.path.join(TMP, "other")
    open(liar, "w").write('#!/bin/sh\nfor o; do [ "$p" = -o ] && echo garbage >"$o"; p=$o; done\necho a lie\n')
    open(other, "w").write('#!/bin/sh\nexec cc "$@"\n')
    os.chmod(liar, 0o755), os.chmod(other, 0o755)
    code, out = run(DLRUN, model, *SMALL, f"--expdir={TMP}/lie", CC=liar, **env)
    check(code == 5 and liar.encode() in out and b"a lie" in out, f"exit {code}: {out[-300:]}")
    check(not [f for f in os.listdir(folder) if f.endswith((".so", ".dlp")) or f.startswith("work")],
          os.listdir(folder))
    for turn, words in enumerate((b"compiled in", b"plan from the cache")):
        code, out = run(DLRUN, model, *SMALL, f"--expdir={TMP}/true{turn}", **env)
        check(code == 0 and words in out, f"exit {code}: {out[-300:]}")
    plans = [f for f in os.listdir(folder) if f.endswith(".dlp")]
    code, out = run(DLRUN, model, *SMALL, f"--expdir={TMP}/true2", CC=other, **env)
    check(code == 0 and b"compiled in" in out, "another compiler uses the first one's plan")
    check(len([f for f in os.listdir(folder) if f.endswith(".dlp")]) == len(plans) + 1 == 2, "two compilers, two plans")
    plan = os.path.join(folder, plans[0])
    whole = open(plan, "rb").read()
    open(plan, "wb").write(whole[:-9])
    code, out = run(DLRUN, model, *SMALL, f"--expdir={TMP}/cut", **env)
    check(code == 0 and b"compiled anew" in out and open(plan, "rb").read() == whole, f"exit {code}: {out[-300:]}")
    os.rename(plan, plan + ".real"), os.symlink(plan + ".real", plan)
    code, out = run(DLRUN, model, *SMALL, f"--expdir={TMP}/link", **env)
    check(code == 0 and b"compiled in" in out, "a link in the cache is followed")


check_names()
check_warnings()
check_help()
check_cache()
finish()
