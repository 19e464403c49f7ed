#!/usr/bin/env python3
"""check_new_op.py: an op of an existing family costs at most three files.

In a copy of the tree adds a pointwise op and, to the contractions, one with its operands the other way round; builds
the copy, and lets its tests judge both: shapes, gradients next to central differences, meaning next to PyTorch, random
graphs through all passes and compiled. The additions below are the whole change.
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST = 3
# name: {file: (a line that is there, what is put in front of it; at the end of the file without such a line)}
ADDITIONS = {
    "softsign": {
        "ir/ops.def": ("/* pointwise, two operands */",
                       'OP(softsign, "softsign", 1, ELEM, elem_float, softsign, none, promote, NONE, a / (1 + '
                       'k_abs(a)))'),
        "passes/grad/grad_rules.c": (None, """
void dl_grad_softsign(dl_grad *g) { /* 1 / (1 + |a|)^2 */
    dl_value *d = dl_build_k(g->b, DL_OP_add, dl_build1(g->b, DL_OP_abs, operand(g, 0)), 1);
    dl_grad_give(g, 0, divide(g, g->dy, mul(g, d, d)));
}"""),
        "tests/unit/test_gradients.c": ('    {"gelu", DL_OP_gelu,',
                                        '    {"softsign", DL_OP_softsign, apply, -2, 2, {ONE}},'),
    },
    "windows_over": {
        "ir/ops.def": ("/* composites */",
                       'OP(windows_over, "windows_over", 2, CONTRACT, windows, windows, none, lower_precision, '
                                           "A3_2(stride, pad_lo, pad_hi, dilation, groups), WINDOWS(W, X, Y)) /* w, x "
                                           "*/"),
        "tests/unit/infer_cases.def": ("/* composites */",
                                       'GOOD("windows_over", IN(W2, X2), WIN, NULL, "f32[N=2, C=6, H=4, W=5]")'),
    },
}


def insert(path, before, text):
    lines = open(path).read().split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(before)) if before else len(lines) - 1
    open(path, "w").write("\n".join(lines[:at] + [text] + lines[at:]))


def run(what, *command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    results.append((what, done.returncode in (0, 77)))
    print("%s %s" % ("ok    " if results[-1][1] else "FAILED", what))
    if not results[-1][1]:
        print(done.stdout[-3000:])
    return done


results = []
with tempfile.TemporaryDirectory() as copy:
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           stdout=subprocess.PIPE, check=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, files)):
        if os.path.isfile(os.path.join(ROOT, name)):
            os.makedirs(os.path.join(copy, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(copy, name))
    for op, files in ADDITIONS.items():
        results.append(("%s touches %d files, at most %d" % (op, len(files), MOST), len(files) <= MOST))
        print("ok     " if results[-1][1] else "FAILED", results[-1][0])
        for name, (before, text) in files.items():
            insert(os.path.join(copy, name), before, text)
    build = os.path.join(copy, "build")
    tests = ["tests/test_infer", "tests/test_gradients", "tests/interp_run", "tests/pass_fuzz"]
    run("set up", "meson", "setup", build, cwd=copy)
    run("build", "ninja", "-C", build, *tests)
    environment = dict(os.environ, DLR_CACHE_DIR=os.path.join(copy, "cache"))
    if all(ok for _, ok in results):
        run("shapes", os.path.join(build, tests[0]), cwd=copy)
        run("gradients", os.path.join(build, tests[1]), cwd=copy)
        run("meaning next to PyTorch", "/usr/bin/python3", "tests/oracle/check_ops.py", os.path.join(build, tests[2]),
            cwd=copy)
        # as many graphs as it takes to fail where an op is not drawn
        run("random graphs, passes", os.path.join(build, tests[3]), "--graphs=200", "--passes", "--reduce=" + build,
            cwd=copy)
        run("random graphs, compiled", os.path.join(build, tests[3]), "--graphs=100", "--targets", "--reduce=" + build,
            cwd=copy, env=environment)
print("%d passed, %d failed" % (sum(ok for _, ok in results), sum(not ok for _, ok in results)))
sys.exit(not all(ok for _, ok in results))
