#!/usr/bin/env python3
"""Tests check_docs.py: pages that it must accept and refuse, and mutants that they must see.

Prints "N passed, N failed". Each mutant replaces a piece of check_docs.py, which must be there.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = (HERE / "check_docs.py").read_text()


def sh(*lines):
    return "\n".join(["Text.", "", "```sh", *lines, "```", ""])


# name: (page, exit status)
PAGES = {
    "right": (sh("$ echo one; echo two", "one", "two", "$ true"), 0),
    "wrong": (sh("$ echo one", "two"), 1),
    "more": (sh("$ echo one; echo two", "one"), 1),
    "less": (sh("$ echo one", "one", "two"), 1),
    "silent": (sh("$ true", "one"), 1),
    "fails": (sh("$ echo one; exit 3", "one"), 1),
    "fails_in_pipe": (sh("$ false | cat"), 1),
    "told": (sh('$ false || echo "exit status $?"', "exit status 1"), 0),
    "absent": (sh("$ cat nowhere.txt", "..."), 1),
    "no_command": ("Text.\n", 1),
    "no_dollar": (sh("echo one", "one"), 1),
    "other_block": ("```text\n$ false\n```\n", 1),
    "unended": ("```sh\n$ true\n", 1),
    "file": ("```text file=a/b.txt\nHello.\n```\n" + sh("$ cat a/b.txt", "Hello."), 0),
    "file_outside": ("```text file=../b.txt\nHello.\n```\n" + sh("$ true"), 1),
    "continued": (sh("$ echo one \\", "    two", "one two"), 0),
    "any_lines": (sh("$ seq 9", "1", "...", "8", "9"), 0),
    "any_lines_wrong": (sh("$ seq 9", "1", "...", "7", "9"), 1),
    "any_text": (sh("$ echo one two three", "one <...> three"), 0),
    "any_text_wrong": (sh("$ echo one two three", "one <...> four"), 1),
    "time": (sh("$ echo took 12.5 s", "took 3 s"), 0),
    "time_wrong": (sh("$ echo took 12.5 s", "took 12.5 apples"), 1),
    "date": (sh("$ echo 2001-01-31 10:20:30,123 done", "1999-12-01 00:00:00,000 done"), 0),
    "place": (sh("$ echo a.dl:10:20: error", "a.dl:10:21: error"), 1),
    "near": (sh("$ echo loss=0.1001", "loss=0.1000"), 0),
    "far": (sh("$ echo loss=0.1001", "loss=0.1100"), 1),
    "exponent": (sh("$ echo 1.0e-3", "1e-3"), 0),
    "whole": (sh("$ echo 101", "100"), 1),
    "blanks": (sh("$ echo 'a    b'", "a b"), 0),
    "python": ('```python file=a.py\nprint("hello")\n```\n' + sh("$ python3 a.py", "hello"), 0),
    "left_out": (sh("$ true") + "```sh not-run=gpu\n$ false\n```\n", 0),
    "left_out_alone": ("```sh not-run=gpu\n$ false\n```\n", 1),
    "left_out_why": (sh("$ true") + "```sh not-run=rain\n$ false\n```\n", 1),
    "before": (sh("$ echo one > one.txt"), 0),
    "continues": ("<!-- continues: before.md -->\n" + sh("$ cat one.txt", "one"), 0),
    "continues_fails": ("<!-- continues: fails.md -->\n" + sh("$ true"), 1),
    "continues_nothing": ("<!-- continues: nowhere.md -->\n" + sh("$ true"), 1),
    "needs": ("<!-- needs: sh cat -->\n" + sh("$ true"), 0),
    "needs_lacking": ("<!-- needs: sh cat_that_nobody_has -->\n" + sh("$ true"), 77),
    "lacking": ("```python file=a.py\nimport torch_that_nobody_has\n```\n" + sh("$ true"), 77),
}
# name: (page, the same after --write)
LINES = "$ echo; echo loss=0.5; echo took 7 s; echo; echo done in 3"
STAMP = "$ echo 2001-01-31 10:20:30,123 one"
WRITTEN = {
    "all": (sh("$ seq 2", "3"), sh("$ seq 2", "1", "2")),
    "kept": (sh(LINES, "...", "loss=0.9", "took <...>", "...", "done in 4"),
             sh(LINES, "...", "loss=0.5", "took <...>", "...", "done in 3")),
    "near": (sh("$ echo a=0.101; echo b=3", "a=0.100", "b=4"),
             sh("$ echo a=0.101; echo b=3", "a=0.101", "b=3")),
    "marked": (sh("$ echo at 7 apples a=0.5", "at <...> a=0.9"),
               sh("$ echo at 7 apples a=0.5", "at <...> a=0.5")),
    "agrees": (sh("$ echo took 7 s", "took 9 s"), sh("$ echo took 7 s", "took 9 s")),
    "stamp": (sh(STAMP, "two"), sh(STAMP, "<...> one")),
}
# A piece of check_docs.py, what a mutant has in its place, and the pages of which one sees it, or "written": those of
# WRITTEN.
MUTANTS = [
    ("status == 0 and agrees(wanted, output)", "agrees(wanted, output)", "fails"),
    ("status == 0 and agrees(wanted, output)", "status == 0", "wrong"),
    ("-o\", \"pipefail", "+o\", \"pipefail", "fails_in_pipe"),
    ("    if not count:\n", "    if False:\n", "no_command"),
    ("        return not lines\n", "        return True\n", "more"),
    ("WITHIN = 0.02", "WITHIN = 0.2", "far"),
    ("    if not any(c in a + b for c in \".eE\"):\n        return False\n", "", "whole"),
    ("if not path.resolve().is_relative_to(here):", "if False:", "file_outside"),
    ("            counts = 0, 1\n", "            counts = 1, 0\n", "no_command"),
    ("sys.exit(1 if failed else", "sys.exit(0 if failed else", "wrong"),
    ("if imported(p, text) and not importlib", "if False and not importlib", "lacking"),
    ("numbers is not None and all(map(alike, *numbers))", "numbers is not None", "any_lines_wrong"),
    ("new += [refreshed(old, line) if", "new += [old if", "written"),
    ("    return bool(reasons)\n", "    return False\n", "left_out"),
    ("        if reason not in NOT_RUN:\n", "        if False:\n", "left_out_why"),
    ("        if status:\n            raise Fault", "        if False:\n            raise Fault",
     "fails", "continues_fails"),
    ("        if before:\n            prepare(before, here, env)\n        yield", "        yield",
     "before", "continues"),
    ('        if status == 0 and write:', '        if write:', "written"),
]


def verdicts(folder, source, only=()):
    """The pages on which check_docs.py, as in the source, errs, each with its result."""
    script = folder / "tests/docs/check_docs.py"
    for part in script.parent, folder / "tests/e2e":
        part.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE.parent / "e2e/checks.py", folder / "tests/e2e")
    script.write_text(source.replace('PACKAGES = (', 'PACKAGES = ("torch_that_nobody_has", '))

    def run(name, text, *options):
        page = folder / f"{name}.md"
        page.write_text(text)
        done = subprocess.run([sys.executable, script, folder / "build", *options, page],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return page, done.returncode, done.stdout.decode()

    for name, (text, status) in PAGES.items():
        if only and name not in ("right", *only):
            continue
        page, found, said = run(name, text)
        if found != status or page.read_text() != text:
            yield name, f"exit status {found}, {status} is right\n{said}"
    if only and "written" not in only:
        return
    for name, (text, after) in WRITTEN.items():
        page, found, said = run(name, text, "--write")
        if found or page.read_text() != after:
            yield name, f"exit status {found}; after --write:\n{page.read_text()}{said}"
    page, found, said = run("failing", sh("$ echo one; exit 3", "two"), "--write")
    if found != 1 or "two" not in page.read_text():
        yield "failing", f"exit status {found} of --write\n{said}"
    done = subprocess.run([sys.executable, script, folder / "build", folder / "nowhere.md"],
                          stdout=subprocess.DEVNULL)
    if done.returncode != 1:
        yield "missing page", f"exit status {done.returncode}"


def seen(folder, old, new, *only):
    """Whether a page sees the mutant; one that fails at the first page does not run at all."""
    if old not in SOURCE:
        return False
    page = next((page for page, _ in verdicts(folder, SOURCE.replace(old, new), only)), None)
    return page and page != "right"


def pages_without_a_test():
    """Pages of the tutorial and the guide that meson.build does not list."""
    listed = (HERE / "meson.build").read_text()
    for room in "tutorial", "guide":
        names = listed.split(f"\n{room} = [\n")[1].split("]")[0]
        for page in sorted((HERE.parents[1] / "docs" / room).glob("*.md")):
            if f"  '{page.stem}',\n" not in names:
                yield page.name


def main():
    failed = 0
    for page in pages_without_a_test():
        failed += 1
        print(f"failed: no test runs {page} (tests/docs/meson.build)")
    with tempfile.TemporaryDirectory(prefix="dlc_runner_") as name:
        folder = pathlib.Path(name).resolve()
        for page, what in verdicts(folder, SOURCE):
            failed += 1
            print(f"failed: {page}: {what}")
        for old, new, *only in MUTANTS:
            if not seen(folder, old, new, *only):
                failed += 1
                print(f"failed: nobody saw the mutant: {old.strip()!r} -> {new.strip()!r}")
    count = len(PAGES) + len(WRITTEN) + 3 + len(MUTANTS)
    print(f"{count - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
