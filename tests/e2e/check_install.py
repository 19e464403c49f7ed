#!/usr/bin/env python3
"""check_install.py BUILD: a copy that `meson install` puts under a prefix other than the configured one, used from
elsewhere.

Its programs find models, configurations and MPI modules next to themselves; what it should hold is there; each library
that a program links has a row in docs/reference/licences.md.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import checks
from checks import TMP, check

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/ranks"))
import mpi  # noqa: E402

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": TMP, "NO_COLOR": "1", **checks.CACHE}
HELD = ["share/dlc/models/unet.dl", "share/dlc/models/config/unet.yaml", "share/dlc/models/config/names.yaml",
        "share/dlc/examples/sweep.yaml",
        "share/doc/dlc/LICENSE", "share/doc/dlc/README.md", "share/doc/dlc/CHANGELOG.md",
        "share/doc/dlc/docs/guide/train.md",
        "share/doc/dlc/docs/reference/licences.md", "share/man/man1/dlc.1", "share/man/man1/dlrun.1",
        "share/man/man1/dldata.1",
        "share/bash-completion/completions/dlrun", "share/zsh/site-functions/_dlc",
        "share/fish/vendor_completions.d/dldata.fish"]
SYSTEM = {"libc", "libm", "ld-linux-x86", "ld-linux-aarch64", "libpthread", "libdl"}


def install():
    """The prefix, which is not that of the build's configuration. A link leads to it, as in a site's tree."""
    to = pathlib.Path(TMP, "destination")
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", to], text=True,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout[-2000:])
    found = next(to.rglob("bin/dlrun")).parents[1]
    prefix = pathlib.Path(TMP, "a prefix")
    shutil.move(found, prefix)
    return prefix


def run(program, *words, **more):
    return subprocess.run([program, *words], cwd="/", text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          env={**ENV, **more})


def check_files(prefix):
    for name in HELD:
        check((prefix / name).is_file(), f"{name} is not installed")
    for folder in ("models", "examples"):
        want = {p
                for p in subprocess.run(["git", "ls-files", folder], cwd=ROOT, text=True,
                                        capture_output=True).stdout.split()}
        got = {str(p.relative_to(prefix / "share/dlc")) for p in (prefix / "share/dlc" / folder).rglob("*")}
        check(want <= got, f"not installed: {sorted(want - got)[:5]}")
    check(not list((prefix / "share/doc/dlc").rglob("notebook")), "the notebook is no document for users")


def check_finds(prefix):
    """From a folder without models, and by a link."""
    dlrun, dlc = prefix / "bin/dlrun", prefix / "bin/dlc"
    r = run(dlrun, "models/unet.dl", "--config", "tiny", "--dry_run")
    check(r.returncode == 0 and "parameters" in r.stdout, f"model and configuration: {r.stderr[-300:]}")
    r = run(dlrun, "--config", "nosuch", "--dry_run")
    check(str(prefix / "share/dlc/models/config/unet.yaml") in r.stderr,
          f"names the file of its own prefix: {r.stderr[-300:]}")
    r = run(dlc, "compile", "models/nosuch.dl")
    check(r.returncode == 4 and str(prefix / "share/dlc") in r.stderr,
          f"names the places: {r.returncode}, {r.stderr[-300:]}")
    link = pathlib.Path(TMP, "link")
    link.symlink_to(dlc)
    r = run(link, "check", "models/vit.dl")
    check(r.returncode == 0 and "ok" in r.stdout, f"by a link: {r.stderr[-300:]}")
    copied = pathlib.Path(TMP, "copied", "dlc")  # a file outside of a prefix's bin
    copied.parent.mkdir()
    shutil.copy(dlc, copied)
    r = run(copied, "check", "models/vit.dl")
    check(r.returncode == 4 and "models/vit.dl" in r.stderr, f"a program alone: {r.returncode}, {r.stderr[-300:]}")


def check_ranks(prefix):
    """MPI's modules are found under the program's own prefix."""
    for family in ("openmpi", "mpich"):
        mpirun = mpi.find(BUILD, family)
        if mpirun:
            r = subprocess.run([prefix / "bin/dlrun", "-n", "2", "models/cnn_classifier.dl",
                                "--data_loader_config=synthetic", "--Nsamples=8",
                                "--Nsamples_val=4", "--global_batch_size=4", "--num_epochs=1",
                                f"--expdir={TMP}/runs-{family}"],
                               cwd=TMP, text=True, capture_output=True, stdin=subprocess.DEVNULL,
                               env={**mpi.environment(), **ENV, "PATH": os.environ["PATH"], "DLR_MPIRUN": mpirun})
            check(r.returncode == 0, f"two ranks of {family}: {r.stderr[-400:]}")


def check_version(prefix):
    def is_commit(name):
        return subprocess.run(["git", "cat-file", "-e", f"{name}^{{commit}}"], cwd=ROOT,
                              capture_output=True).returncode == 0

    for program in ("dlc", "dlrun", "dldata"):
        r = run(prefix / "bin" / program, "--version", "--verbose")
        said = r.stdout
        check(r.returncode == 0 and said.startswith(f"{program} "),
              f"{program} --version --verbose: {r.returncode} {r.stderr[-300:]}")
        named = re.search(r"^commit ([0-9a-f]{12})(-dirty)?$", said, re.M)
        check(not (ROOT / ".git").exists() or named and is_commit(named[1]),
              f"{program}: no commit of this checkout: {said[:200]}")
        check(re.search(r"^built by (gcc|clang) [\d.]+, \w+$", said, re.M) and "kernels are compiled by /" in said,
              f"{program}: compilers: {said}")
        needed = subprocess.run(["readelf", "-d", prefix / "bin" / program], text=True, capture_output=True).stdout
        for name, file in (("HDF5", "libhdf5"), ("zlib", "libz."), ("zstd", "libzstd"), ("libyaml", "libyaml"),
                           ("FFTW", "libfftw3f")):
            line = re.search(rf"^{name} \d[\d.]* \((/.*/{file}[^/]*)\)$", said, re.M)
            check(bool(line) == (f"[{file}" in needed) and (not line or os.path.exists(line[1])),
                  f"{program}: {name}: {said}")
        check(re.search(r"^CPU: .+, \d+ usable, target cpu:\w+$", said, re.M) and "CPU features:" in said,
              f"{program}: CPU: {said}")
        for module in prefix.rglob("dlr_mpi_*.so"):
            check(re.search(rf"^(Open MPI v|MPICH |MPI)[\d.]* \({re.escape(str(module))}\)$", said, re.M),
                  f"{program}: {module}: {said}")
        short = run(prefix / "bin" / program, "--version").stdout
        check(said.startswith(short) and "commit" not in short, f"{program} --version: {short}")


def check_licences(prefix):
    page = (ROOT / "docs/reference/licences.md").read_text()
    for path in [*(prefix / "bin").iterdir(), *prefix.rglob("*.so")]:
        text = subprocess.run(["readelf", "-d", path], text=True, capture_output=True).stdout
        for name in re.findall(r"\(NEEDED\).*\[([\w+-]+?)(?:_serial)?(?:-[\d.]+)?\.so", text):
            check(name in SYSTEM or name == "libdlc" or f"`{name}`" in page,
                  f"{path.name} links {name}, which docs/reference/licences.md lacks")


def main():
    prefix = install()
    check_files(prefix)
    check_finds(prefix)
    check_ranks(prefix)
    check_version(prefix)
    check_licences(prefix)
    checks.finish()


if __name__ == "__main__":
    main()
