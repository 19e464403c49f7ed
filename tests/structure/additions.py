"""What a new thing costs: of check_new.py. Patches of tests/additions, each the whole change, are applied to
a copy of the tree, all to the same one, so that one build serves all five tests. They run one after the other: the
first one builds, and the next ones find that nothing is to do.
"""
import fcntl
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests/additions"
TREE = ROOT / "build-test/additions/tree"
BUILD = TREE / "build-test/gcc"  # as scripts/test's own lies in its tree, so that ccache knows what that compiled
TARGETS = ["cli/dlc", "cli/dlrun", "cli/dldata", "tests/test_infer", "tests/test_gradients", "tests/test_tune",
           "tests/interp_run", "tests/pass_fuzz", "tests/docs/print_tables"]


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **options)


def files_of(patch):
    """The files that it touches, new ones and tests among them."""
    return set(re.findall(r"^\+\+\+ b/(.*)$", patch.read_text(), re.M))


def put(name, data, mode):
    """Writes what differs alone, so that ninja builds no more than that."""
    to = TREE / name
    if not to.is_file() or to.read_bytes() != data:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
    to.chmod(mode)


def copy_tree():
    """The tracked files, and what would be, with all patches. Returns the patches that do not apply."""
    TREE.mkdir(parents=True, exist_ok=True)
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           stdout=subprocess.PIPE, check=True).stdout.split(b"\0")
    wanted = {n for n in map(os.fsdecode, filter(None, names)) if (ROOT / n).is_file()}
    patches = sorted(PATCHES.glob("*.patch"))
    touched, refused = set().union(*map(files_of, patches)), []
    with tempfile.TemporaryDirectory() as place:
        patched = pathlib.Path(place)
        subprocess.run(["git", "init", "-q", place], check=True)
        for name in touched & wanted:
            (patched / name).parent.mkdir(parents=True, exist_ok=True)
            (patched / name).write_bytes((ROOT / name).read_bytes())
        for patch in patches:
            done = run("git", "apply", "--unidiff-zero", str(patch), cwd=place)
            refused += [f"{patch.name}: {done.stdout.strip()}"] if done.returncode else []
        for name in wanted | touched:
            source = patched / name if name in touched else ROOT / name
            if source.is_file():
                put(name, source.read_bytes(), ((ROOT / name) if name in wanted else source).stat().st_mode)
    for path in [p for p in TREE.rglob("*") if p.is_file() and TREE / "build-test" not in p.parents
                 and ".git" not in p.relative_to(TREE).parts]:
        if str(path.relative_to(TREE)) not in wanted | touched:
            path.unlink()
    if not (TREE / ".git").exists():
        subprocess.run(["git", "init", "-q", str(TREE)], check=True)
    return refused


class Additions:
    """The copy, built; `kind` is the first word of the patches that are counted."""

    def __init__(self, kind, most):
        self.results = []
        self.lock = open(ROOT / "build-test/additions.lock", "w") if (ROOT / "build-test").is_dir() else None
        if self.lock is None:
            (ROOT / "build-test").mkdir()
            self.lock = open(ROOT / "build-test/additions.lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        patches = sorted(PATCHES.glob(f"{kind}-*.patch"))
        self.say(bool(patches), f"there is a patch of kind {kind}")
        for patch in patches:
            n = len(files_of(patch))
            self.say(n <= most, f"{patch.stem} touches {n} files, at most {most}")
        refused = copy_tree()
        self.say(not refused, "all patches apply", "\n".join(refused))
        self.env = {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
        if not refused:
            if not (BUILD / "build.ninja").exists():
                self.run("set up", "meson", "setup", "build-test/gcc", env={"CC": os.environ.get("CC", "gcc")})
            self.run("build", "ninja", "-C", str(BUILD), *TARGETS, *emulator())
        self.env["PATH"] = f"{BUILD}/cli:{os.environ['PATH']}"
        self.env["DLR_CACHE_DIR"] = os.environ.get("DLC_TEST_CACHE") or str(TREE.parent / "cache")
        self.env["DLR_CACHE_MAX"] = "0"
        self.env["DLR_CUDA_EMULATOR"] = str(BUILD / emulator()[0])

    def built(self):
        return all(ok for ok, _ in self.results)

    def say(self, ok, what, why=""):
        self.results.append((bool(ok), what))
        print("%s %s" % ("ok    " if ok else "FAILED", what), flush=True)
        if not ok and why:
            print(why[-3000:], flush=True)
        return bool(ok)

    def run(self, what, *command, env=None, codes=(0, 77)):
        """Runs it in the copy's root; its text."""
        done = run(*map(str, command), cwd=TREE, env={**self.env, **(env or {})})
        self.say(done.returncode in codes, what, done.stdout)
        return done.stdout

    def finish(self):
        n = sum(ok for ok, _ in self.results)
        print("%d passed, %d failed" % (n, len(self.results) - n))
        sys.exit(n < len(self.results))


def emulator():
    return ["tests/emulator/libcuda_emulator.so"]
