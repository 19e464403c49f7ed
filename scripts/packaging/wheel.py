#!/usr/bin/env python3
"""Makes the Python wheel: the package dlc, with its library and the libraries that this one needs.

    scripts/wheel [--build=DIR] [--out=DIR]     dist/dlc-VERSION-py3-none-manylinux_2_NN_x86_64.whl

The build folder is `build`, which meson sets up where it is absent. Installing the wheel takes no
compiler, and no other package than NumPy. Exit 2: usage, 5: something is missing.
"""
import argparse
import ast
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bindings/python/dlc"
# Libraries of every Linux with the GNU C library.
C_LIBRARY = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux.*|linux-vdso.*")


def fail(text):
    print(f"wheel: {text}", file=sys.stderr)
    sys.exit(5)


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        fail(f"{' '.join(map(str, command))}: exit status {done.returncode}")
    return done.stdout


def version():
    return re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]


def built(build):
    """The library, from the build folder."""
    if not (build / "build.ninja").exists():
        output("meson", "setup", build, ROOT)
    output("ninja", "--quiet", "-C", build, "bindings/python/libdlc.so")
    library = build / "bindings/python/libdlc.so"
    if "san.so" in output("readelf", "-d", library):
        fail(f"{build} is a build with sanitizers: name another by --build")
    return library


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


def metadata():
    about = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text()))
    return f"""Metadata-Version: 2.1
Name: dlc
Version: {version()}
Summary: Trained networks of dlc in Python programs
License: BSD-3-Clause
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
    info, records = f"dlc-{version()}.dist-info", []
    with zipfile.ZipFile(path, "w") as wheel:
        for source in sorted(PACKAGE.glob("*.py")) + [PACKAGE / "py.typed"]:
            put(wheel, records, f"dlc/{source.name}", source.read_bytes())
        for library in libraries:
            put(wheel, records, f"dlc/{library.name}", library.read_bytes(), 0o755)
        put(wheel, records, f"{info}/METADATA", metadata().encode())
        put(wheel, records, f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: scripts/wheel\n"
            f"Root-Is-Purelib: false\nTag: {tag}\n".encode())
        for name, source in licences.items():
            put(wheel, records, f"{info}/licenses/{name}", source.read_bytes())
        put(wheel, [], f"{info}/RECORD", "\n".join([*records, f"{info}/RECORD,,", ""]).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    options = parser.parse_args()
    library = built(options.build)
    with tempfile.TemporaryDirectory(prefix="dlc_wheel_") as folder:
        libraries, licences = [], {"LICENSE": ROOT / "LICENSE"}
        for name, source in [("libdlc.so", library), *sorted(needed(library))]:
            libraries.append(pathlib.Path(shutil.copyfile(source, os.path.join(folder, name))))
            subprocess.run(["strip", "--strip-unneeded", libraries[-1]], check=True)
            if source != library:
                licences[f"{name}.txt"] = licence(source)
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / f"dlc-{version()}-{tag(libraries)}.whl"
        write_wheel(path, libraries, licences, tag(libraries))
    print(path)


if __name__ == "__main__":
    main()
