"""What `dlc check` says of a model and what `dlc compile` does with it: the same, for each model of tests/golden/diag,
models and tests/data.

check_agree.py DLC     from the project's root; needs nothing but Python's own library

Their exit codes agree, and where both refuse, the first error is at one place. A model alone may leave to a
configuration what compile then asks for: an argument without a default (DL-E0602), or the size of an axis (DL-E0211);
check says ok of the rest of it.
"""
import glob
import os
import re
import subprocess
import sys

from checks import ENV, TMP, check, finish, takes

DLC = os.path.abspath(sys.argv[1])
LEFT_OPEN = ("DL-E0602", "DL-E0211")
OWN = {
    # an argument gives no axis its size, in a parameter as in an input
    "param_axis": ("model M(K=6):\n    input x: f32[N, C=3]\n    param w: [K, C] ~ normal(0, 1)\n"
                   "    y = sum(x * w, over=C)\n    output y\n    loss = mean(y)\n", 3, "write K=K"),
    "input_axis": ("model M(T=6):\n    input x: f32[N, T]\n    y = x |> linear(3) @l\n    output y\n"
                   "    loss = mean(y)\n", 3, "write T=T"),
    "image_axis": ("model M(H=24):\n    input x: f32[N, C=1, H, W=8]\n    y = x |> conv(3, 1) @c\n    output y\n"
                   "    loss = mean(y)\n", 3, "write H=H"),
    "module_axis": ("module A(K)(x):\n    param w: [K] = 1\n    return x * w\nmodel M():\n    input x: f32[N, K=3]\n"
                    "    y = x |> A(3) @a\n    output y\n    loss = mean(y)\n", 3, "write K=K"),
    "written_axis": ("model M(T=6):\n    input x: f32[N, T=T]\n    y = x |> linear(3) @l\n    output y\n"
                     "    loss = mean(y)\n", 0, ""),
    "fixed_batch": ("model M():\n    input x: f32[N=8, T=3]\n    y = x |> linear(3) @l\n    output y\n"
                    "    loss = mean(y)\n", 0, ""),
    # what a pass makes of it is larger than tensors may be: refused by both, at its place
    "window_of_all": ("model M():\n    input x: f32[N, C=64, W=16000000]\n    param p: [1] = 1\n"
                      "    y = x * (p |> rearrange(\"1 ->\")) |> max_pool(7900000, dilation=2)\n    output y\n"
                      "    loss = mean(y)\n", 3, "DL-E0210"),
    "long_pool": ("model M():\n    input x: f32[N=16, C=64, W=480000]\n    param p: [1] = 1\n"
                  "    y = x * (p |> rearrange(\"1 ->\"))\n    z = mean(y |> adaptive_avg_pool(1)) + mean(y |> "
                  "avg_pool(480000)) + mean(y |> max_pool(480000))\n    output z\n    loss = z\n", 0, ""),
    "large_constants": ("model M():\n    input x: f32[N, C=4]\n    input i: i64[N, C]\n    input j: i32[N, C]\n"
                        "    param p: [C=4] = 1\n    y = x * p\n    output y\n    loss = mean(max(y, 1e16)) + mean(y "
                        "* 9007199254740993)\n    metric a = mean((i > 9223372036854775807) as f32)\n"
                        "    metric b = mean((j < 3000000000) as f32)\n    metric c = mean((clamp(j, min=3000000000) "
                        "== 3000000000) as f32)\n", 0, ""),
}


def dlc(command, path):
    return subprocess.run([DLC, command, path], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=dict(ENV, NO_COLOR="1"))


def first_error(text):
    found = re.search(r"^\S+?:(\d+):(\d+): error", text, re.M)
    return found and found.groups()


def compare(path, status=None, words=""):
    checked = dlc("check", path)
    compiled = dlc("compile", path)
    name = os.path.basename(path)
    if status is not None:
        check(checked.returncode == status and words in checked.stderr,
              f"{name}: check ends with {checked.returncode}: {checked.stderr[-300:]}")
    if checked.returncode == 0 and any(code in compiled.stderr for code in LEFT_OPEN) and status is None:
        return
    check(checked.returncode == compiled.returncode in (0, 3),
          f"{name}: check ends with {checked.returncode}, compile with {compiled.returncode}: {checked.stderr[-200:]} "
          f"{compiled.stderr[-300:]}")
    if checked.returncode:
        check(first_error(checked.stderr) == first_error(compiled.stderr),
              f"{name}: {first_error(checked.stderr)}, {first_error(compiled.stderr)}")


for name, (text, status, words) in OWN.items():
    path = os.path.join(TMP, name + ".dl")
    with open(path, "w") as f:
        f.write(text)
    compare(path, status, words)
for number, path in enumerate(sorted(glob.glob("tests/golden/diag/*.dl") + glob.glob("models/*.dl") +
                                     glob.glob("tests/data/*.dl"))):
    if takes(number):
        compare(path)
# an option that is the beginning of one, and not one that is merely alike
for program in ("check", "compile"):
    said = subprocess.run([DLC, program, "tests/data/small.dl", "--amp=fp16"], capture_output=True, text=True, env=ENV)
    check(said.returncode == 2 and "'--amp_mode'" in said.stderr and "mmap" not in said.stderr, said.stderr[-300:])
finish()
