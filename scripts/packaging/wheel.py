"""The Python wheel: the package dlc, with its library, the modules for MPI, and the libraries that the library needs.

Installing it takes no compiler, and no other package than NumPy.
"""
import ast
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile

from facts import LICENSE, ROOT, SUMMARY, VERSION, fail, need, output, refuse_sanitizers, set_up

PACKAGE = ROOT / "bindings/python/dlc"
# Libraries of every Linux with the GNU C library.
C_LIBRARY = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux.*|linux-vdso.*")


def built(build):
    """The library and the modules for MPI, from the build folder."""
    set_up(build)
    rules = (build / "build.ninja").read_text()
    modules = sorted(set(re.findall(r"^build (runtime/comm/dlr_mpi_\w+\.so):", rules, re.M)))
    output("ninja", "--quiet", "-C", build, "bindings/python/libdlc.so", *modules)
    library = build / "bindings/python/libdlc.so"
    refuse_sanitizers(build, library)
    return library, [build / m for m in modules]


def needed(library):
    """The libraries that it needs in addition to the C library's: (name, path)."""
    for name, path in re.findall(r"^\s*(\S+) => (\S+)", output("ldd", library), re.M):
        if not C_LIBRARY.fullmatch(name):
            if path == "not":
                fail(f"{name} is not found")
            yield name, pathlib.Path(path).resolve()


def licence(path):
    """The licence of a library of the system's, as its Debian package has it."""
    places = [str(path), str(path).removeprefix("/usr"), f"/usr{path}"]
    for place in places if shutil.which("dpkg") else []:
        done = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True)
        if done.returncode == 0:
            return pathlib.Path("/usr/share/doc", done.stdout.split(":")[0], "copyright")
    fail(f"the licence of {path} is not found: no Debian package has it")


def tag(libraries):
    """The oldest C library that the libraries load on, as PEP 600 has it."""
    minor = max(int(n) for library in libraries
                for n in re.findall(r"GLIBC_2\.(\d+)", output("readelf", "-V", library)))
    return f"py3-none-manylinux_2_{max(minor, 17)}_{platform.machine()}"


def python_version():
    """The version as PEP 440 spells it: X.Y.Z-dev comes before X.Y.Z."""
    return VERSION.replace("-dev", ".dev0")


def metadata():
    about = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text()))
    return f"""Metadata-Version: 2.1
Name: dlc
Version: {python_version()}
Summary: {SUMMARY}
License: {LICENSE}
Requires-Python: >=3.8
Requires-Dist: numpy>=1.23
Description-Content-Type: text/plain

{about}
"""


def put(wheel, records, name, content, mode=0o644):
    """A file of the archive, of a date that is always the same, and its line of RECORD."""
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
    wheel.writestr(info, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    records.append(f"{name},sha256={digest},{len(content)}")


def write_wheel(path, libraries, licences, tag):
    info, records = f"dlc-{python_version()}.dist-info", []
    with zipfile.ZipFile(path, "w") as wheel:
        for source in sorted(PACKAGE.glob("*.py")) + [PACKAGE / "py.typed"]:
            put(wheel, records, f"dlc/{source.name}", source.read_bytes())
        for library in libraries:
            put(wheel, records, f"dlc/{library.name}", library.read_bytes(), 0o755)
        put(wheel, records, f"{info}/METADATA", metadata().encode())
        put(wheel, records, f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: scripts/package\n"
            f"Root-Is-Purelib: false\nTag: {tag}\n".encode())
        for name, source in licences.items():
            put(wheel, records, f"{info}/licenses/{name}", source.read_bytes())
        put(wheel, [], f"{info}/RECORD", "\n".join([*records, f"{info}/RECORD,,", ""]).encode())


def make(options):
    need("ldd", "readelf", "strip")
    library, modules = built(options.build or ROOT / "build")
    with tempfile.TemporaryDirectory(prefix="dlc_wheel_") as folder:
        libraries, licences = [], {"LICENSE": ROOT / "LICENSE"}
        of_others = sorted(needed(library))
        for name, source in [("libdlc.so", library), *((m.name, m) for m in modules), *of_others]:
            libraries.append(pathlib.Path(shutil.copyfile(source, os.path.join(folder, name))))
            subprocess.run(["strip", "--strip-unneeded", libraries[-1]], check=True)
        for name, source in of_others:
            licences[f"{name}.txt"] = licence(source)
        path = options.out / f"dlc-{python_version()}-{tag(libraries)}.whl"
        write_wheel(path, libraries, licences, tag(libraries))
    return path
