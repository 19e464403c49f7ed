"""What all packages say of the project, each from its one place, and what makes them."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
VERSION = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
LICENSE = re.search(r"license: '([^']+)'", (ROOT / "meson.build").read_text())[1]
SUMMARY, DESCRIPTION = (" ".join(part.replace("`", "").split()) for part in
                        re.search(r"^\*\*(.+?)\.\*\*(.+?)\n\n", README, re.M | re.S).groups())
NAME = os.path.basename(sys.argv[0])


def fail(text):
    print(f"{NAME}: {text}", file=sys.stderr)
    sys.exit(5)


def output(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, **more)
    if done.returncode:
        fail(f"{' '.join(map(str, command))}: exit status {done.returncode}")
    return done.stdout


def need(*programs):
    for name in programs:
        if not shutil.which(name):
            fail(f"{name} is not found (scripts/install-packages build test)")


def commit_time():
    """Seconds of the commit's time: packages of one commit are the same bytes."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def set_up(build, *options):
    """A build folder, set up where it is absent."""
    if not (build / "build.ninja").exists():
        output("meson", "setup", build, ROOT, *options)


def refuse_sanitizers(build, library):
    if "san.so" in output("readelf", "-d", library):
        fail(f"{build} is a build with sanitizers: name another by --build")


def build_packages():
    """The Debian packages that the build needs, of scripts/install-packages."""
    rows = (line.split("|") for line in (ROOT / "scripts/install-packages").read_text().splitlines())
    return [r[0].strip() for r in rows if len(r) == 4 and r[1].strip() == "build"]


def install_commands():
    """The README's commands from the sources to the programs, without how to get the sources, and where they are
    found."""
    block = re.search(r"^## Install\n.*?\n\n((?:    [^\n]*\n)+)", README, re.M | re.S)[1]
    return [line.strip() for line in block.splitlines() if not re.match(r"\s*(git clone|export PATH)", line)]


def write_archive(out):
    """The commit's files as dlc-VERSION.tar.gz, which builds in a container and by Spack unpack."""
    path = out / f"dlc-{VERSION}.tar.gz"
    output("git", "-C", ROOT, "archive", f"--prefix=dlc-{VERSION}/", f"--output={path}", "HEAD")
    return path
