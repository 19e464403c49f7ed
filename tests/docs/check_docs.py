#!/usr/bin/env python3
"""Runs the commands of documents, and compares their output with the page.

    check_docs.py BUILD [--write] [PAGE...]   without PAGE: the tutorial, the guide, the walks and
                                              README.md

Each page has a temporary directory of its own, in which `models`, `scripts` and `examples` are
links to the checkout. A page with the comment `<!-- continues: NAME.md -->` finds there what the
commands of that page, next to it, have left. Its fenced blocks are taken in order:

    ```sh                a line `$ COMMAND` is run by a bash of its own (`set -o pipefail`); it goes
                         on after a line that ends with a backslash. The lines after it, up to the
                         next command, are its output: standard output and error together.
    ```sh not-run=WHY    holds commands that the tests cannot run: they need a GPU, Slurm, several
                         machines, root or the network (NOT_RUN). check_marks.py counts these.
    ```LANG file=NAME    is written to NAME.
    other blocks         are text for the reader.

Pages run on the CPU, also where there is a GPU. The programs of BUILD are first in PATH; `python3`
is the Python that runs this script, or that of an oracle (scripts/install-oracle). A page whose
blocks import a package that is lacking is skipped, with exit status 77 where no other page was
checked; so is one with the comment `<!-- needs: COMMAND... -->` where a command is not there.

The output agrees with the page where all lines do, in order:

    ...                  a line of its own: any lines, or none
    <...>                within a line: any text
    dates and times      2001-01-31, 10:20:30 (with a fraction too): any
    12 s, 0.5 GB/s       a number before a unit of time or of speed: any
    0.125, 1e-3          a number with a point or an exponent: within two in a hundred
    runs of blanks       alike, and blanks at the end are ignored

A command that fails, output that differs, a page without a command and a missing page are failures.
A command that is meant to fail says so: `dlc check bad.dl || echo "exit status $?"`.

--write puts the new output into the page where it differs. Lines `...` and marks `<...>` stay where
their neighbours are found again; else all lines are pasted.
"""
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from checks import ENV  # noqa: E402

PAGES = [*sorted((ROOT / "docs/tutorial").glob("*.md")), *sorted((ROOT / "docs/guide").glob("*.md")),
         ROOT / "docs/internals/follow-a-layer.md", ROOT / "README.md"]
NOT_RUN = ("gpu", "slurm", "machines", "root", "network")  # why a block of commands is not run
PACKAGES = ("torch", "numpy", "h5py")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
# scripts/install-oracle NAME, and the packages for which a page gets its Python, by the first line
ORACLES = {"keras": ("keras",), "libraries": ("timm", "monai", "neuralop"),
           "onnx": ("onnxruntime", "safetensors")}
SECONDS = 900  # of one command

STAMP = r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:[.,]\d+)?)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?"
UNIT = (r"(?:[mun]?s|sec|seconds|min|minutes|h|"
        r"[KMGT]?i?B/s|[MGT]?FLOP/s|samples/s(?:ec)?|iters/sec)\b")
TOKEN = re.compile(rf"(?P<stamp>{STAMP})|(?P<time>{NUMBER}) ?{UNIT}|(?P<number>{NUMBER})")
WITHIN = 0.02


class Fault(Exception):
    pass


def parts_of(wanted):
    """A line of the page as (text, its regular expression, whether a number is to be compared)."""
    for text in re.split(r"(<\.\.\.>)", wanted.strip()):
        if text == "<...>":
            yield text, ".*", False
            continue
        at = 0
        for m in TOKEN.finditer(text):
            yield text[at:m.start()], blanks(text[at:m.start()]), False
            expression = STAMP if m["stamp"] else rf"{NUMBER} ?{UNIT}" if m["time"] else NUMBER
            yield m.group(), f"(?:{expression})", bool(m["number"])
            at = m.end()
        yield text[at:], blanks(text[at:]), False


def numbers_in(wanted, line):
    """The numbers of a line of output and of the page; None where they differ in more."""
    parts = list(parts_of(wanted))
    expression = "".join(f"({e})" if number else e for _, e, number in parts)
    found = re.fullmatch(expression, line.strip())
    return found and (found.groups(), [text for text, _, number in parts if number])


def line_agrees(wanted, line):
    """Whether a line of output is that of the page."""
    numbers = numbers_in(wanted, line)
    return numbers is not None and all(map(alike, *numbers))


def refreshed(wanted, line):
    """The page's line with the numbers of the output; its marks, dates and times stay."""
    numbers = iter(numbers_in(wanted, line)[0])
    indent = wanted[:len(wanted) - len(wanted.lstrip())]
    parts = parts_of(wanted)
    return indent + "".join(next(numbers) if number else text for text, _, number in parts)


def blanks(text):
    return re.sub(r"(?:\\?\s)+", lambda _: r"\\s+", re.escape(text)).replace(r"\\s+", r"\s+")


def alike(a, b):
    if a == b:
        return True
    if not any(c in a + b for c in ".eE"):
        return False
    x, y = (float(n.replace(",", "")) for n in (a, b))
    return abs(x - y) <= WITHIN * max(abs(x), abs(y))


def agrees(wanted, lines):
    """Whether output is that of the page; `...` stands for any lines."""
    if not wanted:
        return not lines
    if wanted[0].strip() == "...":
        return any(agrees(wanted[1:], lines[i:]) for i in range(len(lines) + 1))
    return bool(lines) and line_agrees(wanted[0], lines[0]) and agrees(wanted[1:], lines[1:])


def rewritten(wanted, lines):
    """New lines for the page: those of the old shape, with its `...`, or else all."""
    new, at, gap = [], 0, False
    for old in wanted:
        if old.strip() == "...":
            new, gap = new + [old], True
            continue
        places = [i for i in range(at, len(lines) if gap else min(at + 1, len(lines)))
                  if numbers_in(old, lines[i])]
        if not places:
            return [stamped(line) for line in lines]
        line = lines[places[0]]
        keeps = "<...>" in old or line_agrees(old, line)
        new += [refreshed(old, line) if keeps else stamped(line)]
        at, gap = places[0] + 1, False
    return new if gap or at == len(lines) else [stamped(line) for line in lines]


def stamped(line):
    """Dates of today are no part of a page."""
    return re.sub(STAMP, "<...>", line).rstrip()


def blocks(text):
    """The page's lines, and its fenced blocks: (first line, line after it, words of the fence)."""
    lines, found, start = text.split("\n"), [], None
    for i, line in enumerate(lines):
        if line.startswith("```"):
            if start is None:
                start = i
            else:
                found.append((start + 1, i, shlex.split(lines[start][3:])))
                start = None
    if start is not None:
        raise Fault(f"line {start + 1}: a block that does not end")
    return lines, found


def left_out(words):
    """Whether the fence of a block says that its commands are not run."""
    reasons = [w[8:] for w in words[1:] if w.startswith("not-run=")]
    for reason in reasons:
        if reason not in NOT_RUN:
            raise Fault(f"not-run={reason} is none of {', '.join(NOT_RUN)}")
    return bool(reasons)


def commands(lines, first, end):
    """Of a block: (command, first line of its output, line after it)."""
    at = first
    while at < end:
        if not lines[at].startswith("$ "):
            raise Fault(f"line {at + 1}: a command begins with `$ `")
        command = lines[at][2:]
        while command.endswith("\\") and at + 1 < end:
            at += 1
            command += "\n" + lines[at]
        at = start = at + 1
        while at < end and not lines[at].startswith("$ "):
            at += 1
        yield command, start, at


def text_of(lines, found):
    return "\n".join("\n".join(lines[a:b]) for a, b, _ in found)


def imported(package, text):
    return re.search(rf"\b(?:import|from) {package}\b", text)


def oracle_of(text):
    """The environment of ORACLES that has packages of these blocks; None where none is named."""
    return next((name for name, packages in ORACLES.items()
                 if any(imported(p, text) for p in packages)), None)


def python_of(oracle):
    return CACHE / f"dlc-{oracle}/bin/python"


def lacking(lines, found):
    """Packages that the page's Python needs and this one has not, and commands that are absent."""
    text = text_of(lines, found)
    oracle = oracle_of(text)
    named = re.findall(r"^<!-- needs: (.*) -->$", "\n".join(lines), re.M)
    packages = [p for p in PACKAGES if imported(p, text) and not importlib.util.find_spec(p)]
    if oracle and not python_of(oracle).exists():
        packages += [p for p in ORACLES[oracle] if imported(p, text)]
    return packages + [c for c in " ".join(named).split() if not shutil.which(c)]


def environment(build, folder, oracle=None):
    """Variables in which a page's commands run, with the Python of an oracle where it is there."""
    tools = folder / "bin"
    tools.mkdir()
    python = python_of(oracle or "onnx")
    python = python if python.exists() else sys.executable
    (tools / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')
    (tools / "python3").chmod(0o755)
    return {**ENV, "PATH": f"{tools}:{build}/cli:{ENV['PATH']}",
            "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}


def installed(build, folder):
    """What a page that calls pkg-config finds: an installed copy, away from the build."""
    where = folder / "installed"
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", where],
                   check=True, stdout=subprocess.DEVNULL)
    library = next(where.rglob("dlc.pc")).parent.parent
    return {"PKG_CONFIG_PATH": f"{library}/pkgconfig", "LD_LIBRARY_PATH": str(library),
            "PYTHONPATH": str(ROOT / "bindings/python")}


def run(command, here, env):
    """The lines of a command's output, and its exit status."""
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=here, env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS)
    text = done.stdout.decode(errors="replace").replace(f"{here}/", "").replace(f"{ROOT}/", "")
    text = re.sub(r"[^\n]*\r", "", text)
    return text.rstrip("\n").split("\n") if text.strip() else [], done.returncode


def write_file(here, name, text, line):
    path = here / name
    if not path.resolve().is_relative_to(here):
        raise Fault(f"line {line}: {name} is not in the page's folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def page_before(page, lines):
    """The page whose commands come first; None where this one begins by itself."""
    found = re.search(r"^<!-- continues: ([\w-]+\.md) -->$", "\n".join(lines), re.M)
    return page.parent / found[1] if found else None


def steps(lines, found, here, env):
    """Writes a page's files and runs its commands: (command, place, output, status)."""
    for first, end, words in found:
        files = [w[5:] for w in words[1:] if w.startswith("file=")]
        if files:
            write_file(here, files[0], "\n".join(lines[first:end]) + "\n", first)
        elif words[:1] == ["sh"] and not left_out(words):
            for command, start, after in commands(lines, first, end):
                yield command, start, after, *run(command, here, env)


def prepare(page, here, env):
    """Runs the page that another one continues; its own test compares its output."""
    lines, found = blocks(page.read_text())
    before = page_before(page, lines)
    if before:
        prepare(before, here, env)
    for command, start, _, output, status in steps(lines, found, here, env):
        if status:
            raise Fault(f"{page.name}:{start}: exit status {status}: {command} {output[-5:]}")


def outputs(page, lines, found, build):
    """The steps of a page in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="dlc_docs_") as name:
        folder = pathlib.Path(name).resolve()
        text = text_of(lines, found)
        env, here = environment(build, folder, oracle_of(text)), folder / "page"
        if "pkg-config" in text:
            env |= installed(build, folder)
        here.mkdir()
        for link in ("models", "scripts", "examples"):
            (here / link).symlink_to(ROOT / link)
        before = page_before(page, lines)
        if before:
            prepare(before, here, env)
        yield from steps(lines, found, here, env)


def check_page(page, build, write):
    """How many commands agreed and failed; None where the page is skipped."""
    lines, found = blocks(page.read_text())
    missing = lacking(lines, found)
    if missing:
        print(f"SKIP: {page.name} needs {', '.join(missing)} (for {sys.executable})")
        return None
    count = failed = 0
    edits = []
    for command, start, after, output, status in outputs(page, lines, found, build):
        count += 1
        wanted = lines[start:after]
        if status == 0 and agrees(wanted, output):
            continue
        if status == 0 and write:
            edits.append((start, after, rewritten(wanted, output)))
            continue
        failed += 1
        told = ["the page has", *wanted, "and the command gave"]
        if status:
            told = [f"exit status {status}"]
        print(f"{page.name}:{start}: $ {command}", *told, *output[-60:], sep="\n  ")
    if not count:
        raise Fault("no command: nothing was checked")
    for start, after, new in reversed(edits):
        lines[start:after] = new
    if edits:
        page.write_text("\n".join(lines))
        print(f"{page.name}: {len(edits)} outputs written")
    return count - failed, failed


def main(arguments):
    write = "--write" in arguments
    names = [a for a in arguments if a != "--write"]
    if not names or any(a.startswith("-") for a in names):
        sys.exit(__doc__)
    build, passed, failed, skipped = pathlib.Path(names[0]).resolve(), 0, 0, 0
    for page in [pathlib.Path(n) for n in names[1:]] or PAGES:
        try:
            counts = check_page(page, build, write)
        except (Fault, OSError, subprocess.TimeoutExpired) as fault:
            print(f"{page}: {fault}")
            counts = 0, 1
        if counts is None:
            skipped += 1
        else:
            passed, failed = passed + counts[0], failed + counts[1]
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0 if passed else 77)


if __name__ == "__main__":
    main(sys.argv[1:])
