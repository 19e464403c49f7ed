#!/usr/bin/env python3
"""The packages that scripts/package makes: a Debian package, unpacked elsewhere, with its programs and libraries; texts
for Apptainer, Spack and environment modules; all of one version.

check_packages.py BUILD     from the project's root; programs that are absent are left out (77: not Debian, or a build
                            with sanitizers)
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import types

from checks import CACHE, ENV, TMP, check, finish, turn

BUILD = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT, SCRIPT = pathlib.Path(TMP, "dist"), str(ROOT / "scripts/package")
VERSION = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
# The least of compression: at its best it takes as long as all else, and nothing hangs on it.
ENV |= {"DPKG_DEB_COMPRESSOR_LEVEL": "0"}
ENV |= {"DEBFULLNAME": "A Tester", "DEBEMAIL": "tester@debian.org"}
MODULES = "/usr/share/lmod/lmod/libexec/lmod"
CLIENT = """#include <dlc.h>
#include <stdio.h>
int main(void) { return puts(dlc_version()) < 0; }
"""
FORTRAN = """program client
  use dlc
  print '(a)', dlc_version()
end program client
"""
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(client C Fortran)
find_package(dlc %s REQUIRED COMPONENTS Fortran)
add_executable(shared client.c)
target_link_libraries(shared dlc::dlc)
add_executable(static client.c)
target_link_libraries(static dlc::static)
add_executable(fortran client.f90)
target_link_libraries(fortran dlc::fortran)
"""


def run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          **{"env": ENV, **more})


def package(*words):
    r = run(SCRIPT, *words, f"--out={OUT}")
    check(r.returncode == 0 and r.stdout, f"scripts/package {words}: {r.returncode} {r.stderr[-500:]}")
    return pathlib.Path((r.stdout or " \n").split()[-1])


def make_deb():
    """Its files, unpacked by dpkg-deb."""
    r = run(SCRIPT, "deb", f"--build={BUILD}", f"--out={OUT}")
    if "sanitizers" in r.stderr or not shutil.which("dpkg-shlibdeps"):
        print("SKIP: a build with sanitizers, or no Debian")
        sys.exit(77)
    if not check(r.returncode == 0, f"scripts/package deb: {r.returncode} {r.stderr[-500:]}"):
        finish()
    deb, root = r.stdout.strip(), f"{TMP}/root"
    check(run("dpkg-deb", "-x", deb, root).returncode == 0, "dpkg-deb -x")
    return deb, pathlib.Path(root, "usr")


def check_fields(deb):
    field = {n: run("dpkg-deb", "-f", deb, n).stdout.strip()
             for n in ("Version", "Depends", "Recommends", "Maintainer")}
    check(field["Version"] == VERSION.replace("-", "~") and field["Maintainer"] == "A Tester <tester@debian.org>",
          f"{field}")
    for name in ("gcc | clang", "libc6-dev", "libhdf5", "libyaml-0-2", "libfftw3-single3", "libjpeg62-turbo"):
        check(name in field["Depends"], f"Depends lacks {name}: {field['Depends']}")
    check("mpi" not in field["Depends"], f"an MPI must not be needed: {field['Depends']}")
    for family, library in (("openmpi", "libopenmpi"), ("mpich", "libmpich")):
        has = os.path.exists(f"{BUILD}/runtime/comm/dlr_mpi_{family}.so")
        check((library in field["Recommends"]) == has, f"Recommends and {library}: {field['Recommends']}")
    if not turn(0, 4):
        return  # it takes a third of this test's time, and what it reads seldom changes
    if shutil.which("lintian"):
        r = run("lintian", deb)
        check(r.returncode == 0, f"lintian: {r.returncode} {r.stdout[-900:]}")
    else:
        print("SKIP: no lintian")


def check_programs(usr):
    """From a prefix that is not /usr, in a folder without models."""
    env = {"PATH": f"{usr}/bin:/usr/bin:/bin", "HOME": TMP, "NO_COLOR": "1", **CACHE}
    for words, part in ((["dlc", "--version"], VERSION), (["dlc", "check", "models/vit.dl"], "ok"),
                        (["dldata", "--version"], VERSION),
                        (["dlrun", "models/unet.dl", "--config", "tiny", "--dry_run"], "parameters")):
        r = run(f"{usr}/bin/{words[0]}", *words[1:], cwd="/", env=env)
        check(r.returncode == 0 and part in r.stdout, f"{words}: {r.returncode} {r.stdout[-200:]} {r.stderr[-300:]}")
    if shutil.which("man"):
        r = run("man", "-w", "dlrun", env=env)
        check(str(usr) in r.stdout, f"man finds the page of PATH: {r.stdout} {r.stderr}")
    check(not (usr / "share/doc/dlc/LICENSE").exists() and "BSD" in (usr / "share/doc/dlc/copyright").read_text(),
          "the licence is `copyright`")


def check_library(usr):
    library = next(usr.rglob("libdlc.so")).parent
    pathlib.Path(TMP, "client.c").write_text(CLIENT)
    pathlib.Path(TMP, "client.f90").write_text(FORTRAN)
    env = {**ENV, "PKG_CONFIG_PATH": f"{library}/pkgconfig", "LD_LIBRARY_PATH": str(library)}
    has_fortran = (usr / "include/dlc/fortran/dlc.mod").exists() and shutil.which("gfortran")
    for compiler, source, name in [("cc", "client.c", "dlc")] + [("gfortran", "client.f90",
                                                                  "dlc-fortran")] * bool(has_fortran):
        flags = run("pkg-config", "--cflags", "--libs", name, env=env).stdout.split()
        r = run(compiler, f"{TMP}/{source}", *flags, f"-J{TMP}" if compiler == "gfortran" else "-std=c99", "-o",
                f"{TMP}/client")
        said = run(f"{TMP}/client", env=env)
        check(r.returncode == 0 and said.stdout.strip() == VERSION,
              f"pkg-config {name}: {flags} {r.stderr[-400:]} {said.stdout}{said.stderr}")
    if not has_fortran or not shutil.which("cmake"):
        return print("SKIP: no cmake, or the build has no module dlc")
    check_cmake(usr, env)


def check_cmake(usr, env):
    """Targets of the CMake package; a component that is not there."""
    pathlib.Path(TMP, "CMakeLists.txt").write_text(CMAKE % VERSION.split("-")[0])
    configure = ["cmake", "-S", TMP, "-B", f"{TMP}/of_cmake", f"-DCMAKE_PREFIX_PATH={usr}"]
    r = run(*configure, env=env)
    if check(r.returncode == 0, f"cmake: {r.stderr[-600:]}"):
        r = run("cmake", "--build", f"{TMP}/of_cmake", env=env)
        for name in ("shared", "static", "fortran") if check(
                r.returncode == 0, f"cmake --build: {r.stdout[-300:]} {r.stderr[-600:]}") else ():
            said = run(f"{TMP}/of_cmake/{name}", env={k: v for k, v in env.items() if k != "LD_LIBRARY_PATH"})
            check(said.stdout.strip() == VERSION, f"dlc::{name}: {said.stdout} {said.stderr}")
    module = usr / "include/dlc/fortran/dlc.mod"
    module.rename(f"{TMP}/dlc.mod")
    r = run(*configure, "--fresh", env=env)
    shutil.move(f"{TMP}/dlc.mod", module)
    check(r.returncode != 0 and "this installation of dlc has no component Fortran" in " ".join(r.stderr.split()),
          f"no Fortran: {r.stderr}")


def check_modulefile(usr):
    path = package("modulefile", f"--prefix={usr}")
    check(path.name == VERSION, f"{path}")
    if os.path.exists(MODULES):
        env = {"PATH": "/usr/bin:/bin", "HOME": TMP, "MODULEPATH": str(OUT / "modulefiles"), "NO_COLOR": "1"}
        r = run(MODULES, "bash", "load", "dlc", env=env)
        loaded = ("eval \"$MODULE\"; command -v dlrun && pkg-config --modversion dlc && echo $DLR_CACHE_PATH && dlrun "
                  "--version")
        said = run("bash", "-c", loaded, env={**env, "MODULE": r.stdout})
        check(said.returncode == 0 and said.stdout.split("\n")[:3] == [f"{usr}/bin/dlrun", VERSION, f"{usr}/cache"],
              f"module load: {r.stderr} {said.stdout}{said.stderr}")
        check(VERSION in run(MODULES, "bash", "whatis", "dlc", env=env).stderr, "module whatis")
    else:
        print("SKIP: no lmod")
    for prefix, part in ((TMP, "is no prefix with dlc"), (None, "by --prefix")):
        r = run(SCRIPT, "modulefile", f"--out={OUT}", *([f"--prefix={prefix}"] if prefix else []))
        check(r.returncode == 5 and part in r.stderr, f"{part}: {r.returncode} {r.stderr}")


def check_archive(path):
    with tarfile.open(path) as archive:
        names = set(archive.getnames())
    check({f"dlc-{VERSION}/{n}" for n in ("meson.build", "scripts/install-packages", "models/unet.dl")} <= names,
          "the archive has the sources")


def check_apptainer():
    """The README's commands, in its order, in the archive that lies next to the definition."""
    text = package("apptainer").read_text()
    sections = dict(re.findall(r"^%(\w+)\n((?:    [^\n]*\n)+)", text, re.M))
    readme = (ROOT / "README.md").read_text().split("## Install")[1].split("## ")[0]
    commands = [line.strip() for line in readme.splitlines() if line.startswith("    ")]
    check(commands[0].startswith("git clone") and commands[-1].startswith("export PATH") and len(commands) == 4,
          f"the README's lines: {commands}")
    lines = [line.strip() for line in sections["post"].splitlines()]
    at = [lines.index(c) if c in lines else -1 for c in commands[1:-1]]
    check(-1 not in at and at == sorted(at), f"%post has the README's commands: {lines}")
    check(lines.index("meson install -C build") > at[-1], "then it installs")
    for name in ("post", "runscript", "test", "environment"):
        check(run("bash", "-n", "-c", sections[name]).returncode == 0, f"%{name} is a script")
    for line in sections["test"].splitlines():
        r = run(f"{BUILD}/cli/{line.split()[0]}", *line.split()[1:], cwd=ROOT)
        check(r.returncode == 0, f"%test: {line}: {r.stderr[-300:]}")
    archive = OUT / sections["files"].split()[0]
    check_archive(archive)
    check(f"dlc-{VERSION}" in sections["post"] and f"Version {VERSION}" in text, "the version")


def spack_of(path):
    """The recipe's class, by what it calls of Spack."""
    calls = []
    package = types.ModuleType("spack.package")
    for name in ("version", "variant", "depends_on", "license"):
        setattr(package, name, lambda *a, _name=name, **k: calls.append((_name, a, k)))
    meson = types.ModuleType("spack_repo.builtin.build_systems.meson")
    meson.MesonPackage = type("MesonPackage", (), {})
    parents = {n: types.ModuleType(n)
               for n in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems")}
    sys.modules.update(parents | {package.__name__: package, meson.__name__: meson})
    names = {}
    exec(compile(path.read_text(), path, "exec"), names)
    return names["Dlc"], calls


def check_spack():
    path = package("spack", "--url=https://example.org/dlc.tar.gz")
    recipe, calls = spack_of(path)
    archive = OUT / f"dlc-{VERSION}.tar.gz"
    version = next(c for c in calls if c[0] == "version")
    check(version[1:] == ((VERSION,), {"sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}), f"{version}")
    check(recipe.url == "https://example.org/dlc.tar.gz" and "scientific" in recipe.__doc__
          and (OUT / "spack/repo.yaml").exists(), "the repository")
    package("spack")
    check(spack_of(path)[0].url == archive.as_uri(), "without --url, the archive here")
    needed = {c[1][0].split("@")[0].split("~")[0].split()[0] for c in calls if c[0] == "depends_on"}
    check({"libyaml", "hdf5", "fftw", "libdeflate", "zstd", "c-blosc", "mpi", "fortran", "c"} <= needed, f"{needed}")
    options = re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M)
    library = types.SimpleNamespace(prefix=types.SimpleNamespace(lib="/spack/hdf5/lib"))

    class Spec(set):
        def dependencies(self, deptype):
            return [library] if deptype == "link" else []
    for chosen, state in (({"+mpi", "+fortran"}, "enabled"), (set(), "disabled")):
        recipe.spec = Spec(chosen)
        words = dict(w.removeprefix("-D").split("=", 1) for w in recipe().meson_args())
        check(set(words) <= set(options) and words["mpi"] == words["fortran"] == state
              and words["rpath"] == "/spack/hdf5/lib", f"{words}")


def main():
    deb, usr = make_deb()
    check_fields(deb)
    check_programs(usr)
    check_library(usr)
    check_modulefile(usr)
    if (ROOT / ".git").exists():
        check_apptainer()
        check_spack()
    r = run(SCRIPT, "rpm")
    check(r.returncode == 2 and "rpm" in r.stderr and "usage" in r.stderr,
          f"an unknown kind: {r.returncode} {r.stderr}")
    finish()


main()
