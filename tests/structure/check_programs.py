#!/usr/bin/env python3
"""check_programs.py elf|bytes|whole BUILD: how the programs of a build are compiled and linked.

elf    each program, as built and as installed: position-independent, relocations read-only and bound at the start, no
       executable stack, no run path, stack protector, fortified at the level of meson.build, and no path of this
       machine in it.
bytes  a build in another folder, of a copy of the sources in another folder, gives the same bytes: of some objects,
       drawn by DLC_TEST_DRAW and compiled there anew, and of all programs, linked there of the objects of BUILD.
whole  the same with every object compiled anew; minutes.
"""
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRAWN = 4
# The first names its own source in its text (dl_panic); flex makes the second.
ALWAYS = ["ir/base/memory.c", "frontends/dl/lex.yy.c"]
results = []


def check(good, text):
    results.append(bool(good))
    if not good:
        print("failed:", text)


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **options)
    if done.returncode:
        sys.exit(f"{shlex.join(str(c) for c in command)[:300]}: {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def options_of(build):
    return {o["name"]: o["value"] for o in json.loads(run("meson", "introspect", build, "--buildoptions"))}


def compiler_of(build):
    """Its words, a launcher's among them."""
    commands = json.loads((build / "compile_commands.json").read_text())
    words = shlex.split(commands[0]["command"])
    return words[:next(i for i, w in enumerate(words) if w.startswith("-"))]


def programs_of(build):
    """What is installed, and what stands next to it."""
    targets = json.loads(run("meson", "introspect", build, "--targets"))
    return sorted(os.path.relpath(t["filename"][0], build) for t in targets
                  if t["type"] in ("executable", "shared module", "shared library")
                  and (t["installed"] or t["name"] == "plot_curves"))


# ---- elf ----

def is_fortified(options):
    return options["b_sanitize"] == "none" and options["optimization"] not in ("0", "g")


def is_inner(name, path, options):
    """A run path of a library to one next to it; and of the build to another one there, which meson takes away when it
    installs."""
    return ".so" in name and path == "$ORIGIN" or not name.startswith(
        options["prefix"].lstrip("/")) and path.startswith("$ORIGIN/")


def check_program(path, name, options, foreign):
    text = run("readelf", "-W", "-h", "-l", "-d", "--dyn-syms", path)
    shared = ".so" in name
    check(re.search(r"Type:\s+DYN", text) and (shared or "Flags: NOW PIE" in text), f"{name}: not position-independent")
    check("GNU_RELRO" in text and re.search(r"\bBIND_NOW\b|Flags:.*\bNOW\b", text),
          f"{name}: relocations stay writable")
    check(re.search(r"GNU_STACK.* RW  ?0x", text), f"{name}: an executable stack")
    paths = [p for p in re.findall(r"(?:RUNPATH|RPATH).*path: \[(.*)\]", text) if not is_inner(name, p, options)]
    check(not paths, f"{name}: has a run path: {paths}")
    check("(TEXTREL)" not in text, f"{name}: text relocations")
    check("__stack_chk_fail" in text, f"{name}: no stack protector")
    if is_fortified(options) and not shared:
        check(len(set(re.findall(r"UND (__\w+_chk)\b", text))) >= 5, f"{name}: not fortified")
    data = pathlib.Path(path).read_bytes()
    for folder in foreign:
        check(folder.encode() not in data, f"{name}: has the path {folder}")


def check_flags(build, options):
    """The level that the compiler has is the one that is asked for, of every object."""
    probe = subprocess.run([*compiler_of(build), "-O2", "-D_FORTIFY_SOURCE=3", "-Werror", "-x", "c", "-c", "-o",
                            "/dev/null", "-"],
                           input="#include <string.h>\n", text=True, stderr=subprocess.DEVNULL)
    want = f"-D_FORTIFY_SOURCE={2 if probe.returncode else 3}"
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if "-c" in words and entry["file"].endswith(".c") and "/tests/" not in entry["file"]:
            levels = [w for w in words if "FORTIFY_SOURCE" in w]
            if not levels or levels[-1] != want:
                check(False, f"{entry['file']}: {levels}, not {want}")
    results.append(True)


def check_elf(build):
    options = options_of(build)
    foreign = [str(ROOT) + "/", str(build) + "/"]
    if is_fortified(options):
        check_flags(build, options)
    names = programs_of(build)
    check(len(names) >= 4, f"{len(names)} programs: {names}")
    for name in names:
        check_program(build / name, name, options, foreign)
    with tempfile.TemporaryDirectory() as folder:
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", folder)
        installed = [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and not p.is_symlink()
                     and p.open("rb").read(4) == b"\x7fELF"]
        check(len(installed) == len(names) - 1, f"{len(installed)} files are installed")
        for path in installed:
            check_program(path, str(path.relative_to(folder)), options, foreign)


# ---- bytes ----

def copy_sources(to):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def set_up(build, source, other):
    """A build of the same options by the same compiler."""
    options = options_of(build)
    same = ["prefix", "libdir", "bindir", "buildtype", "optimization", "debug", "b_sanitize", "b_lundef", "b_pie",
            "fuzz"]
    words = [f"-D{k}={str(options[k]).lower() if isinstance(options[k], bool) else options[k]}" for k in same]
    words.append("-Dcommit=" + (build / "cli/commit.h").read_text().split('"')[1])
    args = [f"-Dc_args={','.join(options['c_args'])}"] if options["c_args"] else []
    run("meson", "setup", other, source, *words, *args, env={**os.environ, "CC": shlex.join(compiler_of(build))})


def objects_of(commands):
    """object: command, of what compiles C."""
    found = {}
    for line in commands:
        words = shlex.split(line)
        if "-c" in words and "-o" in words:
            found[words[words.index("-o") + 1]] = line
    return found


def drawn(objects, revision):
    def is_always(name):
        return any(name.endswith(a.replace("/", "_") + ".o")
                   or name.endswith(pathlib.PurePath(a).name + ".o") for a in ALWAYS)
    always = [o for o in objects if is_always(o)]
    rest = sorted(set(objects) - set(always))
    return always + random.Random(revision).sample(rest, DRAWN)


def check_bytes(build, whole):
    revision = os.environ.get("DLC_TEST_DRAW", "1")  # scripts/test draws by commit
    fresh = {**os.environ, "CCACHE_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        source, other = pathlib.Path(folder, "one/two/source"), pathlib.Path(folder, "other")
        source.mkdir(parents=True)
        copy_sources(source)
        set_up(build, source, other)
        names = programs_of(build)
        check(names == programs_of(other), "other programs")
        commands = run("ninja", "-C", other, "-t", "commands", *names).splitlines()
        objects = objects_of(commands)
        check(len(objects) > 200, f"{len(objects)} objects")
        if whole:
            run("ninja", "-C", other, *names, env=fresh)
        else:
            taken = drawn(objects, revision)
            for name in set(objects) - set(taken):
                (other / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(build / name, other / name)
            for name in taken:
                (other / name).parent.mkdir(parents=True, exist_ok=True)
            skipped = {objects[name] for name in set(objects) - set(taken)}
            run("sh", "-ec", "\n".join(line for line in commands if line not in skipped), cwd=other, env=fresh)
        for name in list(objects) + names:
            check((build / name).read_bytes() == (other / name).read_bytes(),
                  f"{name} differs from that of another folder")


def main(what, build):
    build = pathlib.Path(build).resolve()
    check_elf(build) if what == "elf" else check_bytes(build, what == "whole")
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
