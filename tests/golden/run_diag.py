#!/usr/bin/env python3
"""Golden tests of diagnostics: each diag/NAME.dl must give exactly diag/NAME.expect.

run_diag.py FRONT_CHECK [--update] [NAME...]   FRONT_CHECK is build/tests/front_check; --update writes what it says now
(read the difference before committing it)."""
import os
import subprocess
import sys

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "diag")


def main(program, *rest):
    update = "--update" in rest
    names = [a for a in rest if a != "--update"]
    names = names or sorted(f[:-3] for f in os.listdir(folder) if f.endswith(".dl"))
    passed = failed = 0
    for name in names:
        source = os.path.join(folder, name + ".dl")
        run = subprocess.run([program, source, "--name=" + name + ".dl"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        got = run.stdout + b"exit %d\n" % run.returncode
        path = os.path.join(folder, name + ".expect")
        if update:
            with open(path, "wb") as f:
                f.write(got)
        want = open(path, "rb").read() if os.path.exists(path) else b"(no such file: run with --update)\n"
        if got == want and run.returncode in (0, 3):
            passed += 1
            continue
        failed += 1
        print("%s differs; wanted:\n%s\ngot:\n%s" % (name, want.decode("utf-8", "replace"),
                                                     got.decode("utf-8", "replace")))
    print("%d passed, %d failed" % (passed, failed))
    return failed != 0 or passed == 0


sys.exit(main(*sys.argv[1:]))
