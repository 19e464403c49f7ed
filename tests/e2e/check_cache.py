#!/usr/bin/env python3
"""check_cache.py BUILD: compiled kernels and plans on disk. Read-only caches of a site (DLR_CACHE_PATH), homes that
cannot be written, nodes without a compiler, processes that meet on a cold cache, dlc cache list, prune and fill, the
bound."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from checks import ENV, TMP, check, finish

BUILD = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ranks"))
import mpi  # noqa: E402

DLC, DLRUN = str(BUILD / "cli/dlc"), str(BUILD / "cli/dlrun")
MODEL = """model Net(c=4):
    input x: f32[N, C=1, W=8]
    target t: f32[N, C=1, W=8]
    y = x |> conv(c, 3, pad=1) @a |> relu |> conv(1, 3, pad=1) @b
    output y
    loss = mse_loss(y, t)
"""
TRAIN = ["net.dl", "--data_loader_config=synthetic", "--Nsamples=8", "--Nsamples_val=4", "--local_batch_size=4",
         "--num_epochs=1"]
HOLDS = 3  # seconds for which a process that waits must not end


def path(name):
    return pathlib.Path(TMP, name)


def environment(**variables):
    """None takes a variable out."""
    env = {k: v
           for k, v in {**ENV, "DLR_CACHE_MAX": None, "DLR_CACHE_DIR": None, "CC": None, **variables}.items()
           if v is not None}
    return {k: str(v) for k, v in env.items()}


def run(*words, **variables):
    return subprocess.run([str(w) for w in words], cwd=TMP, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          env=environment(**variables))


def compiler(name, gate=None):
    """A compiler that notes each call in NAME.log; its first call waits at a FIFO. What other calls have compiled it
    does not compile again."""
    script = path(name)
    wait = f"mkdir {TMP}/{name}.first 2>/dev/null && read line <{gate}" if gate else ":"
    script.write_text(f'#!/bin/sh\necho "$@" >>{TMP}/{name}.log\n{wait}\nexec {BUILD}/tests/compile_once gcc "$@"\n')
    script.chmod(0o755)
    path(f"{name}.log").touch()
    return script


def calls(name):
    return len(path(f"{name}.log").read_text().splitlines())


def entries(name, end=""):
    return sorted(p.name for p in path(name).glob("*" + end)
                  if not p.name.startswith(".")) if path(name).exists() else []


def warnings(r):
    return re.findall(r"(?:warning: |WARNING - )(.*)", r.stderr)


def test_shared():
    """A site's kernels are taken, and its folder is left alone; one that others may write is not, with one warning."""
    cc = compiler("site_cc")
    check(run(DLC, "compile", "net.dl", DLR_CACHE_DIR=path("site"), CC=cc).returncode == 0 and calls("site_cc") > 0,
          "the site compiles")
    count, before = calls("site_cc"), entries("site")
    path("site").chmod(0o555)
    r = run(DLC, "compile", "net.dl", DLR_CACHE_PATH=f"{path('nowhere')}::{path('site')}", DLR_CACHE_DIR=path("own"),
            CC=cc)
    check(r.returncode == 0 and not warnings(r) and calls("site_cc") == count and not entries("own", ".so"),
          f"the site's are taken: {r.stderr}")
    check(entries("site") == before, "nothing is written there")
    path("site").chmod(0o775)
    r = run(DLC, "compile", "net.dl", DLR_CACHE_PATH=path("site"), DLR_CACHE_DIR=path("own"), CC=cc)
    said = warnings(r)
    check(r.returncode == 0 and len(said) == 1 and "DLR_CACHE_PATH is not used" in said[0]
          and calls("site_cc") == 2 * count,
          f"others may write it: {r.returncode} {r.stderr}")
    path("site").chmod(0o755)
    if os.geteuid() == 0:
        check_owners(cc)


def check_owners(cc):
    """Another user's folder is not trusted, but for the one whose program runs."""
    path(".").chmod(0o755)
    for p in (path("site"), *path("site").iterdir()):
        os.chown(p, 65534, 65534)
    count = calls("site_cc")
    r = run(DLC, "compile", "net.dl", DLR_CACHE_PATH=path("site"), DLR_CACHE_DIR=path("own2"), CC=cc)
    check(r.returncode == 0 and len(warnings(r)) == 1 and calls("site_cc") > count, f"another user's: {r.stderr}")
    path("theirs").mkdir()
    shutil.copy(DLC, path("theirs/dlc"))
    os.chown(path("theirs/dlc"), 65534, 65534)
    count = calls("site_cc")
    r = run(path("theirs/dlc"), "compile", "net.dl", DLR_CACHE_PATH=path("site"), DLR_CACHE_DIR=path("own3"), CC=cc)
    check(r.returncode == 0 and not warnings(r) and calls("site_cc") == count, f"the program's owner's: {r.stderr}")


def test_fill():
    """The loops that models share are compiled before: for a site, and for this build beside its programs."""
    cc = compiler("fill_cc")
    r = run(DLC, "cache", "fill", path("loops"), "--target=cpu:generic,cpu", DLR_CACHE_DIR=path("filler"), CC=cc)
    loops = set(entries("loops"))
    check(r.returncode == 0 and len(loops) > 40 and f"{path('loops')}: {len(loops)} files" in r.stdout,
          f"two targets: {len(loops)} {r.stderr}")
    count = calls("fill_cc")
    for target in ("cpu:generic", "cpu"):
        anew = run(DLC, "compile", "net.dl", f"--target={target}", DLR_CACHE_DIR=path("anew"), CC=cc)
        without, count = calls("fill_cc") - count, calls("fill_cc")
        r = run(DLC, "compile", "net.dl", f"--target={target}", DLR_CACHE_DIR=path("after"),
                DLR_CACHE_PATH=path("loops"), CC=cc)
        filled, count = calls("fill_cc") - count, calls("fill_cc")
        check(anew.returncode == r.returncode == 0 and 0 < filled < without,
              f"{target}: {filled} compilers, and {without} without: {r.stderr}")
    check(set(entries("anew")) - loops == set(entries("after")), "what a model has of its own is compiled, and kept")
    own = BUILD / "kernels"
    here = {p.name for p in own.iterdir()}
    said = run(DLC, "cache", "list", DLR_CACHE_DIR=path("after")).stdout
    check(f"cli/../kernels: {len(here)} files" in said, f"a list has them: {said[-200:]}")
    bare = run(DLC, "compile", "net.dl", DLR_CACHE_DIR=path("bare"), CC="cc -DANOTHER_KEY")
    r = run(DLC, "compile", "net.dl", DLR_CACHE_DIR=path("own_build"))
    check(bare.returncode == r.returncode == 0 and len(entries("own_build")) < len(entries("bare"))
          and not here & set(entries("own_build")),
          f"a build has its own: {len(entries('own_build'))} files, and {len(entries('bare'))} without")
    for words, message in ((["fill"], "which folder?"), (["list", "x"], "a folder goes with `dlc cache fill`"),
                           (["list", "--target=cpu"], "--target is an option of `dlc cache fill`"),
                           (["fill", "x", "--max=1MiB"], "--max is an option of `dlc cache prune`"),
                           (["fill", path("x"), "--target=cpu:none"], "unknown target 'cpu:none'"),
                           (["fill", path("x"), "--target=cuda:sm_90"], "kernels of this target share no loops")):
        r = run(DLC, "cache", *words, DLR_CACHE_DIR=path("after"))
        check(r.returncode == 2 and message in r.stderr, f"{words}: {r.returncode} {r.stderr}")


def test_no_home():
    """One warning, kernels in a folder of TMPDIR that is ours alone and gone afterwards, and a run as ever."""
    cc = compiler("home_cc")
    script = cc.read_text().replace("exec ",
                                    f'for o; do [ "$p" = -o ] && stat -c "%a %n" $(dirname "$o") >>{TMP}/folders; '
                                    'p=$o; done\nexec ')
    cc.write_text(script)
    path("tmp").mkdir()
    path("a_file").touch()
    for home in ("/proc/nobody", "/dev/null", path("a_file"), None):
        r = run(DLRUN, *TRAIN, f"--expdir={TMP}/runs_home", HOME=home, XDG_CACHE_HOME=None, TMPDIR=path("tmp"), CC=cc)
        said = [w for w in warnings(r) if "not kept" in w]
        check(r.returncode == 0 and len(said) == 1 and "DLR_CACHE_DIR" in said[0],
              f"HOME={home}: {r.returncode} {r.stderr[-600:]}")
    folders = path("folders").read_text().splitlines()
    check(len(folders) == calls("home_cc") > 2 and all(f.startswith(f"700 {TMP}/tmp/") for f in folders),
          f"compiled in {folders[:2]}")
    check(not list(path("tmp").iterdir()), f"left there: {list(path('tmp').iterdir())}")
    r = run(DLRUN, *TRAIN, DLR_CACHE_DIR="/proc/nobody")
    check(r.returncode == 4 and "/proc/nobody" in r.stderr,
          f"a folder that the user names: {r.returncode} {r.stderr[-300:]}")


def test_full():
    """Where an entry cannot be written (here: folders stand in its place), the run goes on with one warning."""
    names = ("--expdir=" + str(path("runs_full")), *TRAIN)
    check(run(DLRUN, *names, DLR_CACHE_DIR=path("full")).returncode == 0, "fills the cache")
    for name in entries("full"):
        path("full").joinpath(name).unlink()
        path("full").joinpath(name, "in_the_way").mkdir(parents=True)
    r = run(DLRUN, *names, "--run_num=01", DLR_CACHE_DIR=path("full"))
    check(r.returncode == 0 and len([w for w in warnings(r) if "not kept" in w]) == 1,
          f"a cache that takes nothing: {r.returncode} {r.stderr[-600:]}")


def test_no_compiler():
    """A plan that another process left is run where there is no compiler, unless one is named."""
    prepared = run(DLRUN, *TRAIN, "--dry_run", DLR_CACHE_DIR=path("login"))
    check(prepared.returncode == 0 and entries("login", ".dlp"), f"the login node: {prepared.stderr[-300:]}")
    nowhere = {"PATH": "/nonexistent", "DLR_CACHE_DIR": path("node"), "DLR_CACHE_PATH": path("login")}
    r = run(DLRUN, *TRAIN, f"--expdir={TMP}/runs_node", **nowhere)
    check(r.returncode == 0 and "plan from the cache" in r.stderr,
          f"a node without a compiler: {r.returncode} {r.stderr[-300:]}")
    check(run(DLC, "compile", *TRAIN, DLR_CACHE_DIR=path("compiled")).returncode == 0, "dlc compile prepares")
    for name in ("cold", "warm"):
        run(DLC, "compile", *TRAIN, "-o", f"{name}.dlp", DLR_CACHE_DIR=path("files"))
    check(path("cold.dlp").read_bytes() == path("warm.dlp").read_bytes(),
          "the plan's file is the same, whether the cache took the plan or had it")
    r = run(DLRUN, *TRAIN, f"--expdir={TMP}/runs_node", "--run_num=03",
            **{**nowhere, "DLR_CACHE_PATH": path("compiled")})
    check(r.returncode == 0 and "plan from the cache" in r.stderr,
          f"what dlc compile has left: {r.returncode} {r.stderr[-300:]}")
    mpirun = mpi.find(BUILD, "mpich")
    if mpirun:
        two = [*TRAIN, "--Nsamples=16", "--Nsamples_val=8", f"--expdir={TMP}/runs_two"]
        check(run(DLC, "compile", *two, "--ranks=2", DLR_CACHE_DIR=path("compiled")).returncode == 0,
              "and for two ranks")
        r = run(DLRUN, "-n", "2", *two, DLR_MPIRUN=mpirun, DLR_MPIRUN_ARGS="-genv PATH /nonexistent",
                DLR_CACHE_DIR=path("node"),
                DLR_CACHE_PATH=path("compiled"))
        check(r.returncode == 0 and "plan from the cache" in r.stderr, f"two ranks: {r.returncode} {r.stderr[-300:]}")
    r = run(DLRUN, *TRAIN, f"--expdir={TMP}/runs_node", "--run_num=01", CC="gcc", **nowhere)
    check(r.returncode == 5 and "CC=gcc" in r.stderr, f"a compiler that is named: {r.returncode} {r.stderr[-300:]}")
    r = run(DLRUN, *TRAIN, f"--expdir={TMP}/runs_node", "--run_num=02", "--local_batch_size=2", **nowhere)
    check(r.returncode == 5 and "no C compiler" in r.stderr, f"another plan: {r.returncode} {r.stderr[-300:]}")


def start(cc, cache):
    return subprocess.Popen([DLC, "compile", "net.dl"], cwd=TMP, text=True, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, env=environment(CC=cc, DLR_CACHE_DIR=cache))


def stays(p):
    try:
        p.wait(HOLDS)
        return False
    except subprocess.TimeoutExpired:
        return True


def meet(name, end_first):
    """The first process stands at the gate while the others start. The first, and how the others ended."""
    os.mkfifo(path(f"{name}.gate"))
    cc = compiler(name, path(f"{name}.gate"))
    first = start(cc, path(f"{name}.cache"))
    gate = os.open(path(f"{name}.gate"), os.O_WRONLY)  # as soon as it compiles
    others = [start(cc, path(f"{name}.cache")) for _ in range(4)]
    check(all(stays(p) for p in others[:1]) and all(p.poll() is None for p in others), f"{name}: the others wait")
    end_first(first, gate)
    os.close(gate)
    codes = [p.wait(120) for p in others]
    check(codes == [0] * 4, f"{name}: {codes} {[p.stderr.read()[-200:] for p in others]}")
    return first, cc


def kill_compiler(first, gate):
    """The compiler alone, as the kernel does where memory runs out."""
    tasks = pathlib.Path(f"/proc/{first.pid}/task").glob("*/children")
    for child in " ".join(t.read_text() for t in tasks).split():
        os.kill(int(child), signal.SIGKILL)


def test_meet():
    alone = compiler("alone")
    check(run(DLC, "compile", "net.dl", CC=alone, DLR_CACHE_DIR=path("alone.cache")).returncode == 0, "alone")
    first, _ = meet("meeting", lambda first, gate: os.write(gate, b"\n"))
    check(first.wait(120) == 0 and calls("meeting") == calls("alone"),
          f"one compiles: {calls('meeting')} calls, alone {calls('alone')}")
    first, _ = meet("killed", lambda first, gate: first.send_signal(signal.SIGKILL))
    check(first.wait(120) == -signal.SIGKILL and calls("killed") > calls("alone"),
          "one that was killed is waited for no longer")
    first, _ = meet("lost", kill_compiler)
    said = first.stderr.read()
    check(first.wait(120) == 5 and "was killed" in said and calls("lost") > calls("alone"),
          f"a compiler that is killed fails one process: {first.returncode} {said[-300:]}")


def make_entries(name, ages):
    """Entries of 1000 bytes, of so many days."""
    path(name).mkdir(mode=0o700)
    for i, age in enumerate(ages):
        file = path(name) / f"{i:016x}.so"
        file.write_bytes(bytes(1000))
        now = file.stat().st_mtime
        os.utime(file, (now - 86400 * age, now - 86400 * age))
    (path(name) / "notes.txt").write_text("mine")


def test_prune():
    make_entries("old", [3, 1, 4, 2])
    r = run(DLC, "cache", "list", DLR_CACHE_DIR=path("old"), DLR_CACHE_PATH=path("login"))
    listed = re.findall(r"^([0-9a-f]{16}\.\w+) +(\w+)", r.stdout, re.M)
    check(r.returncode == 0 and [x[0] for x in listed[:4]] == [f"{i:016x}.so" for i in (2, 0, 3, 1)],
          f"oldest first: {r.stdout}")
    check({"plan", "kernels", "note"} <= {x[1] for x in listed}
          and "4 files, 3.9 KiB; at most 1.0 GiB are kept" in r.stdout, r.stdout)
    check(re.search(r"login: \d+ files, .*only read", r.stdout), f"shared ones: {r.stdout}")
    r = run(DLC, "cache", "prune", "--max=2500", DLR_CACHE_DIR=path("old"))
    check(r.returncode == 0 and "removed 2 of 4 files" in r.stdout, f"prune: {r.stdout} {r.stderr}")
    check(entries("old") == [f"{i:016x}.so" for i in (1, 3)] + ["notes.txt"], f"left: {entries('old')}")
    r = run(DLC, "cache", "prune", "--max=1MiB", DLR_CACHE_DIR=path("old"))
    check(r.returncode == 0 and "removed 0 of 2 files" in r.stdout, f"small enough: {r.stdout}")
    r = run(DLC, "cache", "prune", DLR_CACHE_DIR=path("old"), DLR_CACHE_MAX="1K")
    check(r.returncode == 0 and entries("old") == [f"{1:016x}.so", "notes.txt"], f"by the bound: {r.stdout}")
    r = run(DLC, "cache", "list", DLR_CACHE_DIR=path("absent"))
    check(r.returncode == 0 and "0 files" in r.stdout and not path("absent").exists(),
          f"no cache: {r.stdout} {r.stderr}")
    for words, variables in (([], {}), (["lst"], {}), (["prune", "--max=much"], {}), (["list", "--max=1G"], {}),
                             (["list"], {"DLR_CACHE_MAX": "x"})):
        r = run(DLC, "cache", *words, DLR_CACHE_DIR=path("old"), **variables)
        check(r.returncode == 2 and r.stderr.startswith("dlc: error: "), f"cache {words}: {r.returncode} {r.stderr}")


def test_bound():
    """What was compiled stays, the oldest goes, as soon as the bound is passed; what is used becomes young again."""
    make_entries("bound", [30, 20, 10])
    names = ("--expdir=" + str(path("runs_bound")), *TRAIN)
    r = run(DLRUN, *names, DLR_CACHE_DIR=path("bound"))
    check(r.returncode == 0 and f"{0:016x}.so" in entries("bound"), f"below 1 GiB all stays: {r.stderr[-300:]}")
    total = sum(p.stat().st_size for p in path("bound").iterdir() if p.name[0] in "0123456789abcdef")
    fresh = set(entries("bound")) - {f"{i:016x}.so" for i in range(3)} - {"notes.txt"}
    for name in fresh:
        os.utime(path("bound") / name, (1e9, 1e9))
    r = run(DLRUN, *names, "--run_num=01", DLR_CACHE_DIR=path("bound"))
    plan = [p for p in path("bound").glob("*.dlp")]
    check("plan from the cache" in r.stderr and len(plan) == 1 and plan[0].stat().st_mtime > 1e9, "a use is noted")
    kernels = total - 3000 - plan[0].stat().st_size
    most = total + plan[0].stat().st_size + kernels // 2  # with as much again, some of the kernels must go
    r = run(DLRUN, *names, "--run_num=02", "--local_batch_size=2", DLR_CACHE_DIR=path("bound"), DLR_CACHE_MAX=most)
    left = set(entries("bound"))
    check(r.returncode == 0 and plan[0].name in left and not fresh - {plan[0].name} <= left,
          f"the oldest went: {sorted(left)}")
    check(sum(p.stat().st_size for p in path("bound").iterdir() if p.suffix in (".so", ".dlp")) <= most,
          "no more than the bound")
    r = run(DLRUN, *names, "--run_num=03", DLR_CACHE_DIR=path("bound"), DLR_CACHE_MAX="1")
    check(r.returncode == 0
          and run(DLRUN, *names, "--run_num=04", DLR_CACHE_DIR=path("tiny"), DLR_CACHE_MAX="1").returncode == 0,
          "a bound below any entry: runs all the same")
    r = run(DLC, "compile", "net.dl", DLR_CACHE_DIR=path("unclear"), DLR_CACHE_MAX="much")
    check(r.returncode == 0 and len(warnings(r)) == 1 and "DLR_CACHE_MAX=much" in warnings(r)[0],
          f"a bound that is none: {r.stderr}")
    check(entries("tiny") == [], f"and keeps nothing: {entries('tiny')}")


path("net.dl").write_text(MODEL)
test_shared()
test_fill()
test_no_home()
test_full()
test_no_compiler()
test_meet()
test_prune()
test_bound()
finish()
