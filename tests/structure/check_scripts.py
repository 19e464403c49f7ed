#!/usr/bin/env python3
"""The scripts that others rely on to notice a failure: count-tests, select-tests, show-run, mutants, and check_house.py
itself on broken houses."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAILED {what}")


def run(*command):
    done = subprocess.run([sys.executable, *map(str, command)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, done.stdout.strip(), done.stderr


def entry(result, stdout="", suite="unit"):
    return {"name": f"dlc:{suite} / t", "result": result, "stdout": stdout}


def check_counting(place):
    """count-tests: (log entries, meson's status, required suites) -> (status, output)."""
    cases = [
        ("a test with a count", [entry("OK", "3 passed, 0 failed\n")], 0, ["unit"], 0, "3 0 0"),
        ("the last count holds", [entry("OK", "1 passed, 0 failed\n7 passed, 0 failed\n")], 0, ["unit"], 0, "7 0 0"),
        ("a test without a count", [entry("OK", "fine")], 0, ["unit"], 0, "1 0 0"),
        ("a failed check", [entry("FAIL", "2 passed, 1 failed\n")], 1, ["unit"], 0, "2 1 0"),
        ("a crash after a good count", [entry("FAIL", "2 passed, 0 failed\n")], 1, ["unit"], 0, "2 1 0"),
        ("a crash", [entry("ERROR")], 1, ["unit"], 0, "0 1 0"),
        ("failed checks after exit status 0", [entry("OK", "2 passed, 1 failed\n")], 0, ["unit"], 0, "2 1 0"),
        ("skipped", [entry("SKIP", "SKIP: no torch\n"), entry("OK")], 0, ["unit"], 0, "1 0 1"),
        ("a suite without tests", [entry("OK")], 0, ["unit", "golden"], 1, "1 0 0"),
        ("two suites", [entry("OK"), entry("OK", suite="golden")], 0, ["unit", "golden"], 0, "2 0 0"),
        ("meson failed, its log did not", [entry("OK")], 1, ["unit"], 1, ""),
        ("no tests at all", [], 0, ["unit"], 1, ""),
    ]
    for what, entries, status, suites, want_status, want in cases:
        log = place / "testlog.json"
        log.write_text("".join(json.dumps(e) + "\n" for e in entries))
        got = run(ROOT / "scripts/count-tests", log, status, *suites)
        check(got[:2] == (want_status, want), f"count-tests, {what}: {got}")
    got = run(ROOT / "scripts/count-tests", place / "absent.json", 0, "unit")
    check(got[0] == 1, f"count-tests, no log: {got}")


def check_showing(place):
    """show-run: a run directory, one of a killed run, and none."""
    points = [{"epoch": 0, "iteration": 0, "Loss/train": .09, "Loss/valid": .08},
              {"epoch": 1, "iteration": 9, "Loss/train": .05, "Loss/valid": .04}]
    metrics = place / "metrics.jsonl"
    metrics.write_text("".join(json.dumps(p) + "\n" for p in points) + '{"epoch": 2, "iter')
    status, out, _ = run(ROOT / "scripts/show-run", place)
    check(status == 0 and "0.08000" in out and "0.04000" in out and "\n    2 " not in out, f"show-run: {status} {out}")
    points = [{"epoch": e, "train_loss": .3 / e, "val_loss": .2 / e, "accuracy/valid": .25 * e, "never/valid": None}
              for e in (1, 2)]
    metrics.write_text("".join(json.dumps(p) + "\n" for p in points))
    status, out, _ = run(ROOT / "scripts/show-run", place)
    check(status == 0 and "\n    2     0.15000     0.10000  ####" in out
          and "accuracy/valid         0.25000 at first, 0.50000 at last" in out
          and "never" not in out, f"show-run by other systems' tags: {status} {out}")
    metrics.write_text("")
    check(run(ROOT / "scripts/show-run", place)[0] == 1, "show-run without a loss")
    metrics.unlink()
    check(run(ROOT / "scripts/show-run", place)[0] == 1, "show-run without a run")


def check_selecting(place):
    """select-tests: of a change in a tree of its own, and its pieces. No test is no line, which meson would take for
    all."""
    tree, tools = place / "selecting", place / "tools"
    for name in ("scripts", "tests/unit", "ir"):
        (tree / name).mkdir(parents=True)
    tools.mkdir()
    shutil.copy(ROOT / "scripts/select-tests", tree / "scripts")
    (tree / "tests/unit/test_sizes.c").write_text('#include "ir/sizes.h"\n')
    (tree / "tests/unit/test_other.c").write_text("int x;\n")
    build = tree.resolve() / "build"
    tests = [{"name": name, "suite": ["dlc:unit"], "depends": depends, "cmd": ["python3", f"{build}/tests/{name}"]}
             for name, depends in (("other", []), ("sizes", ["shim@sha"]), ("third", []))]
    targets = [{"id": f"{name}@sha", "filename": [f"{build}/{folder}/{name}"]}
               for name, folder in (("other", "tests"), ("sizes", "tests"), ("shim", "ir"), ("dlc", "cli"))]
    (tools / "meson").write_text(f"#!/bin/sh\ncase $3 in --tests) echo '{json.dumps(tests)}' ;; "
                                 f"--targets) echo '{json.dumps(targets)}' ;; esac\n")
    (tools / "ninja").write_text("#!/bin/sh\necho 'ir/a.c.o: c_COMPILER\nir/liba.a: STATIC_LINKER\nall: phony'\n")
    for tool in ("meson", "ninja"):
        (tools / tool).chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

    def select(*args):
        return subprocess.run([sys.executable, tree / "scripts/select-tests", "build", *args], text=True,
                              stdout=subprocess.PIPE, env=env, cwd=tree).stdout

    def commit(*files):
        for file in files:
            (tree / file).write_text("changed\n")
        for command in (["init", "-q"], ["add", "-A"],
                        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t", "--allow-empty"]):
            subprocess.run(["git", *command], cwd=tree, check=True)

    commit()
    for files, want in (((), ""), (("README.md",), ""), (("ir/sizes.c",), "sizes\n"),
                        (("tests/unit/test_other.c",), "other\n")):
        commit(*files)
        got = select("changed")
        check(got == want, f"select-tests, of {files}: {got!r}, not {want!r}")
    pieces = [select("piece", f"{k}/4", "unit") for k in (1, 2, 3, 4)]
    check(pieces == ["other\n", "sizes\n", "third\n", ""], f"select-tests, four pieces of three tests: {pieces}")
    for args, want in ((("needs", "unit"), "ir/shim\ntests/other\ntests/sizes\n"), (("needs", "golden"), ""),
                       (("objects",), "ir/a.c.o\n")):
        got = select(*args)
        check(got == want, f"select-tests {args}: {got!r}, not {want!r}")


def check_house_rules(place):
    """Every rule of check_house.py finds its breakage in a small house, and nothing in a sound one."""
    sound = {"ir/README.md": "# ir\nSee `a.h`.\n", "ir/a.h": "#ifndef A_H\n#define A_H\nint f(void);\n#endif\n",
             "passes/README.md": "# passes\nSee docs/a.md.\n", "passes/p.c": '#include "ir/a.h"\n',
             "docs/README.md": "# docs\n", "docs/a.md": "# a\n"}
    broken = [
        ("headers", {"ir/a.h": "#ifndef A_H\n#define A_H\nsize_t f(void);\n#endif\n"}),
        ("length", {"ir/long.h": "\n" * 501}),
        ("length", {"docs/a.md": "\n" * 1001}),
        ("length", {"tests/wide.py": "#" * 121 + "\n"}),
        ("length", {"tests/wide": "#!/usr/bin/env python3\n" + "#" * 121 + "\n"}),
        ("readmes", {"ir/README.md": "# ir\nSee `b.h`.\n"}),
        ("arrows", {"ir/b.c": '#include "passes/p.h"\n', "passes/p.h": ""}),
        ("paths", {"passes/p.c": f'static const char *p = "/{"home"}/me/x";\n'}),
        ("pages", {"passes/p.c": "/* docs/b.md explains it. */\n"}),
        ("format", {"passes/p.c": "int   f(void)   ;\n"}),
    ]
    here = pathlib.Path("tests/structure/check_house.py")
    rules = {str(here.parent / p.name): p.read_text()
             for p in (ROOT / here, *(ROOT / here.parent).glob("house_*.py"))}
    for number, (rule, change) in enumerate([(None, {}), *broken]):
        house = place / f"house-{number}"
        for name, text in {**sound, **change, **rules}.items():
            path = house / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (house / "tests/README.md").write_text("# tests\n")
        for name in dict(broken) if rule is None else [rule]:
            status, out, err = run(house / here, name)
            if status == 77:
                continue  # no clang-format
            check((status == 0) == (rule is None),
                  f"check_house.py {name} on a house with broken {rule}: {status} {out} {err}")


def check_mutants(place):
    """mutants: what a mutant does to kept kernels stays its own."""
    loader = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "scripts/mutants"))
    mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(mutants)
    of_all, mutants.TREE = place / "kept", place / "mutants/tree"
    of_all.mkdir(), mutants.TREE.mkdir(parents=True)
    kept = {name: f"kernel {name}" for name in ("removed", "replaced", "read")}
    for name, text in kept.items():
        (of_all / name).write_text(text)
    os.environ["DLC_TEST_CACHE"] = str(of_all)
    with mutants.own_kernels() as env:
        own = pathlib.Path(env["DLC_TEST_CACHE"])
        check(own != of_all and env["DLR_CACHE_MAX"] == "0", f"mutants: {env}")
        check({p.name: p.read_text() for p in own.iterdir()} == kept, "mutants: the kernels of all tests are there")
        (own / "removed").unlink()
        (own / "new").write_text("wrong")
        os.replace(own / "new", own / "replaced")
        (own / "added").write_text("wrong")
    check({p.name: p.read_text() for p in of_all.iterdir()} == kept, "mutants: kept kernels are as they were")
    check(not own.exists(), f"mutants: {own} is left")
    del os.environ["DLC_TEST_CACHE"]
    with mutants.own_kernels() as env:
        check(env == {}, f"mutants without kept kernels: {env}")


def main():
    with tempfile.TemporaryDirectory() as place:
        for part in check_counting, check_showing, check_selecting, check_mutants, check_house_rules:
            part(pathlib.Path(place))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0 or passed == 0)


main()
