#!/usr/bin/env python3
"""check_state.py BUILD: variables of the whole process, in libraries. Each stands in STATE with its reason: two models
in two threads share it. A table that nobody writes is no state: it is const, or in a section that is read-only once
addresses are filled in (.data.rel.ro)."""
import pathlib
import re
import subprocess
import sys

ROOMS = ("ir", "frontends", "passes", "compiler", "runtime", "verify", "library", "imports", "dldata")
# object file: variables (None: any), and why the whole process has them
STATE = {
    "ir/base_file_calls.c.o": ({"counted"}, "counts of requests to file systems, atomic"),
    "ir/base_input.c.o": ({"inputs"}, "input files that no output may replace, as a process opens them"),
    "ir/base_lifeline.c.o": ({"bound_socket"}, "in a child alone"),
    "ir/base_memory.c.o": ({"leave_by", "leaving"}, "how the program ends without memory"),
    "ir/base_str.c.o": ({"pool"}, "interned names, under a lock"),
    "ir/base_temporary.c.o": ({"lock", "n", "seen"}, "names of temporaries, under a lock"),
    "compiler/jit_cache.c.o": ({"warned"}, "warnings that are given once, atomic"),
    "runtime/comm_nccl_load.c.o": ({"once", "the_fault", "the_library"}, "NCCL, loaded once"),
    "runtime/cuda_cublaslt_load.c.o": ({"once", "the_fault", "the_library"}, "cuBLASLt, loaded once"),
    "runtime/cuda_cudnn_load.c.o": ({"once", "the_fault", "the_library"}, "cuDNN, loaded once"),
    "runtime/driver_driver.c.o": (None, "the CUDA driver, loaded once"),
    "runtime/log.c.o": ({"sink"}, "one log a process, as Python has one root logger"),
    "runtime/terminal.c.o": ({"terminal"}, "standard error's progress bar"),
    "runtime/tensorboard.c.o": ({"opened"}, "numbers event files, atomic"),
    "runtime/mpi.c.o": (None, "MPI has one state a process, and so has its module"),
}


def variables(path):
    out = subprocess.run(["objdump", "-t", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in out.splitlines():
        found = re.match(r"[0-9a-f]+ .{6}O (\.bss|\.data)(\.\S+)?\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$", line)
        if found and not (found[2] or "").startswith((".rel.ro", ".rel.local")):
            yield re.sub(r"\.\d+$", "", found[3])


def main(build):
    passed, failures, seen = 0, [], set()
    for room in ROOMS:
        for path in sorted((build / room).rglob("*.o")):
            name = f"{room}/{path.name}"
            if "generated" in path.name or "/tests/" in str(path):  # a lexer's and a parser's own
                continue
            found = set(variables(path))
            allowed, _ = STATE.get(name, (set(), ""))
            if found and name in STATE:
                seen.add(name)
            more = set() if allowed is None else found - allowed
            if more:
                failures.append(f"{name} has state of the whole process: {', '.join(sorted(more))}")
            else:
                passed += 1
    failures += [f"{name} has no such state any more: take its row out" for name in sorted(set(STATE) - seen)]
    for failure in failures:
        print(failure)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures or not passed else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
