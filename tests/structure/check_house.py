#!/usr/bin/env python3
"""The rules of the house that a compiler does not check. Names of rules as arguments; all without any.

check_house.py [headers] [length] [readmes] [arrows] [paths] [ops] [precision] [dumps] [clock] [loops] [counted]
[format]
               [words] [texts] [pages]

Looks at what git tracks (and at what it would), so that build directories and data do not count.
"""
import concurrent.futures
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import house_ops
import house_texts
import house_words
from house_arrows import ARROWS

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES, MOST_LINES_OF_CODE, MOST_COLUMNS = 1000, 500, 120
CODE = {".c", ".cc", ".cu", ".h", ".def", ".l", ".y", ".inc", ".f90", ".py", ".sh", ""}
TEXT = CODE | {".md", ".build", ".yaml", ".dl", ".dlir", ".expect"}


def tracked():
    """Every file of the checkout, relative."""
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if out.returncode == 0:
        names = [pathlib.PurePath(n) for n in out.stdout.decode().split("\0") if n]
        return sorted(n for n in names if (ROOT / n).is_file())
    built = re.compile(r"^(build.*|data|logs|runs|\.git)$")  # an archive without .git
    return sorted(p.relative_to(ROOT) for p in ROOT.rglob("*")
                  if p.is_file() and not built.match(p.relative_to(ROOT).parts[0]))


def read(name):
    return (ROOT / name).read_text(errors="replace")


def headers(files):
    """Each header compiles alone."""
    flags = subprocess.run(["pkg-config", "--cflags", "hdf5", "yaml-0.1", "fftw3f", "zlib"], stdout=subprocess.PIPE,
                           text=True).stdout.split()
    flags += ["-std=gnu17", "-D_GNU_SOURCE", '-DDL_VERSION=""', "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-I."]
    gcc = ["ccache", "gcc"] if shutil.which("ccache") else ["gcc"]  # which knows all that a header includes
    names = [n for n in files if n.suffix == ".h"]
    folder = pathlib.Path("build-test/headers")  # sources of the same names in every clone
    (ROOT / folder).mkdir(parents=True, exist_ok=True)

    def compile_alone(name):
        source = folder / (str(name).replace("/", "_") + ".c")
        (ROOT / source).write_text(f'#include "{name}"\n')
        done = subprocess.run([*gcc, *flags, "-c", source, "-o", f"{source}.o"], text=True, cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return None if done.returncode == 0 else f"{name} does not compile alone:\n{done.stdout[:600]}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(compile_alone, names))
    yield len(names)


def length(files):
    """No source is longer than 500 lines, tests included; no other text than 1,000. No line of Python has more than 120
    columns (house_words.py: C, 100)."""
    names = [n for n in files if n.suffix in TEXT]
    for name in names:
        text = read(name)
        lines = text.count("\n")
        most = MOST_LINES_OF_CODE if name.suffix in CODE else MOST_LINES
        if lines > most:
            yield f"{name} has {lines} lines: split it by job (at most {most})"
        if name.suffix == ".py" or re.match(r"#!.*\bpython", text):
            for number, line in enumerate(text.splitlines(), 1):
                if len(line) > MOST_COLUMNS:
                    yield f"{name}:{number} has {len(line)} columns (at most {MOST_COLUMNS})"
    yield len(names)


def readmes(files):
    """Each folder with sources has a README (its own, or that of the folder above for tests' cases), at most a page
    long, which names only files that exist."""
    listed = set(map(str, files))
    folders = {str(n.parent) for n in files if n.suffix in {".c", ".dl", ".l"} and not str(n).startswith("tests/")}
    folders |= {"tests", "bench", "scripts", "docs", "tools", "models", "cli"} & {n.parts[0] for n in files}
    for folder in sorted(folders):
        if f"{folder}/README.md" not in listed and f"{pathlib.PurePath(folder).parent}/README.md" not in listed:
            yield f"{folder} has no README.md"
    names = [n for n in files if n.name == "README.md"]
    for name in names:
        text = read(name)
        if str(name) != "README.md" and text.count("\n") > 80:
            yield f"{name} is longer than a page"
        for word in set(re.findall(r"`([\w./-]+)`|\]\(([\w./-]+)\)", text)):
            word = word[0] or word[1]
            known = word.endswith("/") or re.search(r"\.(c|h|def|l|y|py|sh|md|dl|yaml|build|expect|inc|png)$", word)
            if not known or word.startswith((".", "build", "data/", "runs/", "bench/results/")):
                continue
            places = [ROOT / name.parent / word, ROOT / word]
            if not any(p.exists() for p in places) and not made_by_a_run(word):
                yield f"{name} names {word}, which does not exist"
    yield len(names)


def made_by_a_run(word):
    """Names of files that programs write, and of examples."""
    return word in {"prediction.png", "hyperparams.yaml", "nbody_train.png"} or "*" in word


def room_of(path):
    return max((r for r in ARROWS if under(path, r)), key=len, default=None)


def may_know(path, arrow):
    """An arrow leads to a file, a room, or, with a slash, to a room and those in it."""
    return under(path, arrow[:-1]) if arrow.endswith("/") else arrow in (path, room_of(path))


def included(name):
    for number, line in enumerate(read(name).splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if found:
            yield number, found.group(1)


def under(path, folder):
    return path == folder or path.startswith(folder + "/")


def arrows(files):
    """Rooms include only the rooms that they may know, by paths from the root."""
    listed, count = set(map(str, files)), 0
    for name in files:
        if name.suffix not in {".c", ".h", ".l", ".y", ".inc"}:
            continue
        room = room_of(str(name))
        if room is None:
            yield f"{name} is in no room that tests/structure/check_house.py knows"
            continue
        for line, path in included(name):
            count += 1
            local = str(name.parent / path)
            path = path if path in listed else local if local in listed else path
            if path not in listed:
                if "/" in path:
                    yield f"{name}:{line} includes {path}, which does not exist"
                continue  # generated, in the build directory
            allowed = ARROWS[room]
            if allowed is not None and not any(may_know(path, a) for a in [room, *allowed]):
                yield f"{name}:{line}: {room} must not know {path} (it may know {', '.join(allowed) or 'nobody'})"
    yield count


def paths(files):
    """No path of one machine: the project works wherever it lies."""
    machine = re.compile(r"(?<![\w.])/(?:work|home|root|Users|mnt)/\w")
    names = [n for n in files if n.suffix in TEXT]
    for name in names:
        for number, line in enumerate(read(name).splitlines(), 1):
            if machine.search(line):
                yield f"{name}:{number} holds a path of one machine: {line.strip()[:100]}"
    yield len(names)


def ops(files):
    """Contractions by windows are asked what stands where (ir/relation.h), not for their names: a new row finds its
    way. Only rules of one op name it, in tables by op."""
    names = [n for n in files if n.suffix in {".c", ".h"} and n.parts[0] != "tests"]
    for name in names:
        for number, line in enumerate(read(name).splitlines(), 1):
            if re.search(r"(?<!\[)\bDL_OP_conv\w*", line):
                yield f"{name}:{number} asks for an op by name: {line.strip()[:100]}"
    yield len(names)


def op_lists(files):
    """No lists of ops next to the columns of ir/ops.def (house_ops.py)."""
    yield from house_ops.faults(files, read)


def wrapped(first, names, most=120):
    """Rows of a table, no longer than `most`: the first cell, and names with commas between them."""
    row = []
    for name in names:
        if row and len(f"| {first} | {', '.join([*row, name])} |") > most:
            yield f"| {first} | {', '.join(row)} |"
            row = []
        row.append(name)
    yield f"| {first} | {', '.join(row)} |"


def categories():
    """The rows of docs/reference/precision.md's table, made of the op table."""
    found = {}
    for op, category in re.findall(r"^OP\((\w+), .*?,\s+(lower_precision|preserve|float32|promote|unchanged),",
                                   read("ir/ops.def"), re.M | re.S):
        found.setdefault(category, []).append(f"`{op}`")
    yield "| category | ops |"
    yield "|---|---|"
    for category in ("lower_precision", "preserve", "float32", "promote", "unchanged"):
        yield from wrapped(category, found[category])


def result_types():
    """The rows of docs/reference/precision.md's second table, made of what test_amp checks of each function of the
    language."""
    titles = {"LISTED": "float32, in autocast's list", "OURS": "float32, not in the list",
              "KEPT": "16 bits, computed in float32", "HALF": "16 bits, rounded once or moved"}
    found = {title: [] for title in titles}
    for name, expression, made in re.findall(r'{"(\w+)",\s*"((?:[^"\\]|\\.)*)",\s*(\w+)}',
                                             read("tests/unit/amp_functions.h")):
        if "[" in expression and name not in expression:
            continue  # an element as a scalar
        shown = f"`{name if name in expression else expression}`"
        if shown not in found[made]:
            found[made].append(shown)
    yield "| result, of 16-bit `h` and `z` | functions |"
    yield "|---|---|"
    for made, title in titles.items():
        yield from wrapped(title, found[made])


# Where a library may print, exit or handle signals, and why.
PROCESS = {
    "ir/base/status.c": "dl_panic: a fault of ours, told where it is",
    "ir/base/sandbox.c": "a child process",
    "ir/base/lifeline.c": "a child process that its parent left",
    "ir/base/output.c": "flushes a stream before a file takes its descriptor",
    "compiler/jit/process.c": "a child process; an ignored SIGCHLD is set to its default while one runs",
    "runtime/data/reader_child.c": "a child process",
    "runtime/launch/launch.c": "a child process that becomes mpirun",
    "runtime/sweep/sweep_agent.c": "a child process that becomes dlrun",
    "runtime/cuda/work.c": "DLR_DEBUG=launches",
    "runtime/comm/flight.c": "a lost rank without a run's directory: the process is about to end",
    "runtime/formats/terminal.c": "the log and its progress bar",
}


def libraries(files):
    """Programs alone (cli/) print, exit and handle signals; a library returns errors and gives its text to a
    dl_console."""
    own = re.compile(
        r"(?<![\w.>])(?:printf|puts|putchar|_?exit|abort|signal|sigaction|raise)\("
        r"|\b(?:stdout|stderr|STD(?:OUT|ERR)_FILENO)\b")
    names = [n for n in files if n.suffix in {".c", ".h"}
             and n.parts[0] not in {"tests", "cli", "tools", "bench", "examples"}]
    used = set()
    for name in names:
        text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r"[^\n]", " ", m.group()), read(name),
                      flags=re.S)
        for number, line in enumerate(text.splitlines(), 1):
            if not own.search(line):
                continue
            if str(name) in PROCESS:
                used.add(str(name))
            else:
                yield f"{name}:{number} prints, exits or handles a signal: {line.strip()[:100]}"
    for name in sorted(set(PROCESS) - used):
        yield f"{name} no longer does what tests/structure/check_house.py lets it do"
    yield len(names)


def precision(files):
    """docs/reference/precision.md has the categories of the op table, and what test_amp checks of functions. With
    UPDATE=1 they are written."""
    name, text = "docs/reference/precision.md", read("docs/reference/precision.md")
    new, lines = text, 0
    for mark, rows in (("categories", categories()), ("functions", result_types())):
        table = "\n".join([f"<!-- {mark} -->", *rows, f"<!-- /{mark} -->"])
        new = re.sub(rf"<!-- {mark} -->.*<!-- /{mark} -->", lambda _: table, new, flags=re.S)
        lines += len(table.splitlines())
    if new != text and os.environ.get("UPDATE"):
        (ROOT / name).write_text(new)
    elif new != text:
        yield (f"{name}: a table is not that of ir/ops.def or tests/unit/amp_functions.h "
               "(UPDATE=1 tests/structure/check_house.py precision)")
    yield lines


def dumps(files):
    """Documents call a dump by its pass, or by its place in the pipeline (passes/pipeline.c); docs/internals/passes.md
    lists the passes in their order."""
    text = read("passes/pipeline.c")
    order = "".join(re.findall(r'"([^"]*)"', text[text.index("dl_pipeline[] ="):].split(";")[0])).split(",")
    numbered = list(enumerate(["model"] + order))
    known = {f"{i:02d}-{name}.dlir" for i, name in numbered} | {f"*-{name}.dlir" for _, name in numbered}
    found = 0
    for name in (n for n in files if n.suffix == ".md" and not under(str(n), "docs/notebook")):
        for dump in re.findall(r"(?:\b\d\d|\*)-\w+\.dlir\b", read(name)):
            found += 1
            if dump not in known:
                yield f"{name} names a dump {dump}, which there is not: {', '.join(sorted(known))}"
    if ", ".join(order) not in re.sub(r"\s+", " ", read("docs/internals/passes.md")):
        yield f"docs/internals/passes.md does not have the passes as passes/pipeline.c does: {', '.join(order)}"
    yield found


# Where a test may sleep: how often, and why. A test that sleeps until "it should be there by now" fails where a machine
# is slower, and sees less where it is faster. Let the program stop at a gate (runtime/base/debug.h, Gate of
# e2e/checks.py; of ranks, ranks/phases.c), or wait for a line, a FIFO, an end.
SLEEPS = {
    "tests/e2e/dlrun_runs.py": (2, "kills at instants that are drawn"),
    "tests/e2e/check_sweeps.py": (1, "looks again until a file has so many lines"),
    "tests/ranks/check_faults.py": (1, "looks again until processes that are not ours are gone"),
    "tests/ranks/check_not_finite.py": (1, "looks again until processes that are not ours are gone"),
    "tests/ranks/check_partition.py": (1, "looks again until processes that are not ours are gone"),
    "tests/ranks/check_phases.py": (1, "looks again until processes that are not ours are gone"),
    "tests/ranks/check_slurm.py": (1, "looks again until Slurm's daemons answer"),
    "tests/ranks/check_sweeps.py": (1, "looks again until a file has so many lines"),
    "tests/ranks/comm_faults.c": (2, "looks again until a collective is done; leaves the others time to speak before "
                                     "mpirun ends them"),
    "tests/ranks/nccl_standin.c": (2, "looks again, as NCCL's own thread does; lets calls take time"),
    "tests/ranks/nccl_standin_run.c": (1, "looks again, as NCCL's own thread does"),
    "tests/unit/faulty_calls.h": (1, "looks again until it may go on"),
    "tests/unit/test_exec.c": (2, "measures the processor time of a second's part; lets threads fall asleep"),
    "tests/unit/test_saver.c": (5, "looks again until a thread is done; kills at instants that are drawn"),
}
SLEEP = re.compile(r"\b(?:u|nano|clock_nano)?sleep\s*\(|\btime\.sleep\(|\bsleep (?:\d{1,2}|\d*\.\d+)\b")


def clock(files):
    """Durations have one clock, ir/base/clock.h; tests have none (SLEEPS)."""
    for name in [n for n in files if n.parts[0] == "tests" and n.suffix in {".c", ".h", ".py", ".sh"}
                 and n.name != "check_house.py"]:
        lines = [number for number, line in enumerate(read(name).splitlines(), 1) if SLEEP.search(line)]
        allowed = SLEEPS.get(str(name), (0, ""))[0]
        if len(lines) > allowed:
            yield (f"{name} sleeps in lines {', '.join(map(str, lines))}, {allowed} of them listed: wait for an event "
                   "(SLEEPS in check_house.py)")
        if len(lines) < allowed:
            yield (f"{name} sleeps {len(lines)} times, and SLEEPS in check_house.py lists {allowed}: "
                   "take it off the list")
    names = [n for n in files if n.suffix in {".c", ".h"} and n.parts[0] != "tests" and str(n) != "ir/base/clock.c"]
    for name in names:
        for number, line in enumerate(read(name).splitlines(), 1):
            if re.search(r"\bclock_gettime\(CLOCK_MONOTONIC|\bgettimeofday\(", line):
                yield f"{name}:{number} has a clock of its own: {line.strip()[:100]}"
    yield len(names)


def caches(files):
    """A test that names the folder of all tests' kernels says that it has no limit: a program would remove what others
    have compiled."""
    names = [n for n in files if n.parts[0] == "tests" and n.suffix in {".c", ".h", ".py"}]
    of_all = re.compile(r'DLR_CACHE_DIR.*DLC_TEST_CACHE|ENV\["DLR_CACHE_DIR"\](?! =)')
    yield from (f"{n} names the folder of all tests' kernels and no DLR_CACHE_MAX: take CACHE of tests/e2e/checks.py"
                for n in names if of_all.search(read(n)) and "DLR_CACHE_MAX" not in read(n))
    yield len(names)


def loops(files):
    """A kernel's loops are chosen once: code that needs its loop nests asks for those of its schedule
    (ir/kernel/schedule.h)."""
    names = [n for n in files if n.suffix in {".c", ".h"} and n.parts[0] != "tests" and n.stem != "loop_nest"]
    for name in names:
        for number, line in enumerate(read(name).splitlines(), 1):
            if re.search(r"\bdl_find_loop_nests\(", line) and str(name) != "ir/kernel/schedule_nests.c":
                yield f"{name}:{number} finds loop nests without a schedule: {line.strip()[:100]}"
    yield len(names)


def counted(files):
    """What loaders ask of file systems is counted (ir/base/file_calls.h, ir/base/input.h): dlc estimate-scaling tells
    it of many ranks."""
    names = [n for n in files if under(str(n), "runtime/data") and n.suffix == ".c"]
    asks = re.compile(
        r"(?<![\w.>*])(?:open|openat|fopen|stat|lstat|fstat|fstatat|access|opendir|readdir|scandir|read)\(")
    for name in names:
        for number, line in enumerate(read(name).splitlines(), 1):
            if asks.search(line):
                yield f"{name}:{number} asks a file system past ir/base/file_calls.h: {line.strip()[:100]}"
    yield len(names)


# The contents that clang-format left as they are, among other content-addressed things that tests keep.
FORMATTED = os.environ.get("DLC_TEST_CACHE") and pathlib.Path(os.environ["DLC_TEST_CACHE"], "formatted")


@functools.cache
def style():
    return b"".join(subprocess.run(["clang-format", option], stdout=subprocess.PIPE, cwd=ROOT).stdout
                    for option in ("--version", "--dump-config"))


def format_key(text):
    return hashlib.sha256(style() + text).hexdigest()


def known_formatted():
    try:
        return set(FORMATTED.read_text().split()) if FORMATTED else set()
    except OSError:
        return set()


def format(files):
    """Sources are as clang-format leaves them."""
    if not shutil.which("clang-format"):
        print("format: clang-format is absent (scripts/install-packages test)")
        return
    names = [str(n) for n in files if n.suffix in {".c", ".h"}]
    known, keys = known_formatted(), {n: format_key((ROOT / n).read_bytes()) for n in names}
    new = [n for n in names if keys[n] not in known]
    done = subprocess.run(["clang-format", "--dry-run", "--Werror", *(new or names[:1])], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stdout, re.M)))
    for name in bad:
        yield f"{name} is not formatted: run clang-format -i {name}"
    if done.returncode and not bad:
        yield f"clang-format failed: {done.stdout[:300]}"
    if not done.returncode and new and FORMATTED:
        with tempfile.NamedTemporaryFile("w", dir=FORMATTED.parent, delete=False) as to:
            to.write("\n".join(sorted(known | set(keys.values()))))
        os.replace(to.name, FORMATTED)
    yield len(names)


def words(files):
    """Each public type stands in docs/internals/words.md, and counts of words and long lines only fall
    (house_words.py)."""
    yield from house_words.faults(files, read, room_of, included)


def texts(files):
    """Emitted text is not searched, and names that are counted anew are marked in it (house_texts.py)."""
    yield from house_texts.faults(files, read)


def devices(files):
    """Few files know which kinds of devices there are (house_texts.py)."""
    yield from house_texts.devices(files, read)


def pages(files):
    """Pages of docs/ that a message, a comment or another page names exist; the notebook is as it was."""
    names = [n for n in files if n.suffix in TEXT and n.parts[:2] not in {("docs", "notebook"), ("tests", "structure")}]
    count = 0
    for name in names:
        for number, line in enumerate(read(name).splitlines(), 1):
            for page in re.findall(r"\bdocs/[\w/-]+\.md\b", line):
                count += 1
                if not (ROOT / page).exists():
                    yield f"{name}:{number} names {page}, which does not exist"
    yield count


RULES = {r.__name__: r
         for r in (headers, length, readmes, arrows, paths, ops, op_lists, libraries, precision, dumps, clock, caches,
                   loops, counted, format, words, texts, devices, pages)}


def main(names):
    unknown = set(names) - set(RULES)
    if unknown:
        sys.exit(f"check_house.py: no rule {', '.join(unknown)}; there are {', '.join(RULES)}")
    files, faults, looked_at = tracked(), 0, 0
    for name in names or RULES:
        for found in RULES[name](files):
            if isinstance(found, int):
                looked_at += found
                if not found:
                    faults += 1
                    print(f"{name}: nothing to look at: is this the project?")
            else:
                faults += 1
                print(f"{name}: {found}")
    if not looked_at and not faults:
        sys.exit(77)
    print(f"{looked_at} passed, {faults} failed")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
