"""The Debian package, from a staged `meson install`."""
import email.utils
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap

from facts import DESCRIPTION, ROOT, SUMMARY, VERSION, commit_time, fail, need, output, refuse_sanitizers, set_up

# Kernels are compiled at run time: a compiler, and what it links a shared object with.
AT_RUN_TIME = ["gcc | clang", "libc6-dev"]


def maintainer():
    """Debian's variables, else Git's."""
    found = [os.environ.get(variable)
             or subprocess.run(["git", "-C", ROOT, "config", key], text=True, stdout=subprocess.PIPE).stdout.strip()
             for variable, key in (("DEBFULLNAME", "user.name"), ("DEBEMAIL", "user.email"))]
    if not all(found):
        fail("the maintainer is unknown: set DEBFULLNAME and DEBEMAIL")
    return f"{found[0]} <{found[1]}>"


def stage(build, root):
    """The files of `meson install` under root/usr, whatever the prefix that the build has: they find each other."""
    output("ninja", "--quiet", "-C", build)
    options = {o["name"]: o["value"] for o in json.loads(output("meson", "introspect", build, "--buildoptions"))}
    with tempfile.TemporaryDirectory(prefix="dlc_stage_") as folder:
        output("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder)
        shutil.move(folder + options["prefix"], root / "usr")
    refuse_sanitizers(build, root / "usr" / options["libdir"] / "libdlc.so")


def kind(path):
    """"program", "library", "archive", or None."""
    with open(path, "rb") as f:
        head = f.read(8)
    if head == b"!<arch>\n":
        return "archive"
    if head[:4] == b"\x7fELF":
        return "library" if ".so" in path.name else "program"
    return None


def pack_files(usr):
    """As Debian has them: stripped, man pages packed, the licence as `copyright`, modes of 755 and 644."""
    for path in sorted(p for p in usr.rglob("*") if p.is_file() and not p.is_symlink()):
        found = kind(path)
        if found:
            output("strip", "--enable-deterministic-archives",
                   "--strip-debug" if found == "archive" else "--strip-unneeded",
                   "--remove-section=.comment", path)
        if "share/man" in str(path):
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
            path.unlink()
        else:
            script = not found and path.read_bytes()[:2] == b"#!"
            path.chmod(0o755 if found == "program" or script else 0o644)
    for path in [usr, *usr.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


def write_documents(docs, person):
    text = (docs / "LICENSE").read_text()
    holder = re.search(r"^Copyright \(c\) (.+)$", text, re.M)[1].replace(",", "", 1)
    terms = "\n".join(" " + (line or ".") for line in text[text.index("Redistribution"):].splitlines())
    (docs / "copyright").write_text("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
                                    f"Files: *\nCopyright: {holder}\nLicense: BSD-3-Clause\n{terms}\n")
    (docs / "LICENSE").unlink()
    date = email.utils.formatdate(commit_time())
    entry = (f"dlc ({debian_version()}) unstable; urgency=medium\n\n  * CHANGELOG.md says what is new.\n\n"
             f" -- {person}  {date}\n")
    (docs / "changelog.gz").write_bytes(gzip.compress(entry.encode(), 9, mtime=0))


def debian_version():
    return VERSION.replace("-", "~")


def dependencies(root):
    """Of programs and libraries what dpkg-shlibdeps finds; an MPI for its module is recommended."""
    elf = [p for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()
           and kind(p) in ("program", "library")]
    of_mpi = [p for p in elf if p.name.startswith("dlr_mpi_")]
    with tempfile.TemporaryDirectory(prefix="dlc_deps_") as folder:
        pathlib.Path(folder, "debian").mkdir()
        pathlib.Path(folder, "debian/control").write_text("Source: dlc\n\nPackage: dlc\nArchitecture: any\n")
        own = {f"-l{p.parent}" for p in elf if p.name.startswith("libdlc")}
        said = output("dpkg-shlibdeps", "-O", "--ignore-missing-info", *sorted(own), "-dRecommends", *of_mpi,
                      "-dDepends",
                      *(p for p in elf if p not in of_mpi), cwd=folder, stderr=subprocess.DEVNULL)
    found = dict(re.findall(r"^shlibs:(\w+)=(.*)$", said, re.M))
    fields = {f: [d for d in found.get(f, "").split(", ") if d and not d.startswith("dlc ")]
              for f in ("Depends", "Recommends")}
    fields["Depends"] = sorted(set(fields["Depends"]) | set(AT_RUN_TIME))
    return {f: ", ".join(d) for f, d in fields.items() if d}


def write_control(root, person):
    control = root / "DEBIAN"
    needs = dependencies(root / "usr")
    control.mkdir(mode=0o755)
    size = sum(p.stat().st_size for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    fields = {"Package": "dlc", "Version": debian_version(),
              "Architecture": output("dpkg", "--print-architecture").strip(),
              "Maintainer": person, "Installed-Size": str(size // 1024), **needs, "Section": "science",
              "Priority": "optional",
              "Description": summary() + "\n" +
              textwrap.fill(DESCRIPTION, 78, initial_indent=" ", subsequent_indent=" ")}
    (control / "control").write_text("".join(f"{k}: {v}\n" for k, v in fields.items()))
    libraries = sorted(root.rglob("libdlc*.so.0"))
    (control / "shlibs").write_text("".join(f"{p.name.split('.so')[0]} 0 dlc (>= {debian_version()})\n"
                                            for p in libraries))
    (control / "triggers").write_text("activate-noawait ldconfig\n")
    sums = (f"{output('md5sum', p).split()[0]}  {p.relative_to(root)}\n" for p in sorted((root / "usr").rglob("*"))
            if p.is_file() and not p.is_symlink())
    (control / "md5sums").write_text("".join(sums))
    for path in control.iterdir():
        path.chmod(0o644)


def summary():
    """Without the article, as Debian's policy has it."""
    return re.sub(r"^An? ", "", SUMMARY)


def make(options):
    need("dpkg-deb", "dpkg-shlibdeps", "strip")
    build = options.build or ROOT / "build-package"
    set_up(build, "--prefix=/usr", "-Dtests=false")
    person = maintainer()
    with tempfile.TemporaryDirectory(prefix="dlc_deb_") as folder:
        root = pathlib.Path(folder, "dlc")
        root.mkdir(mode=0o755)
        stage(build.resolve(), root)
        write_documents(root / "usr/share/doc/dlc", person)
        pack_files(root / "usr")
        write_control(root, person)
        path = options.out / f"dlc_{debian_version()}_{output('dpkg', '--print-architecture').strip()}.deb"
        output("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path,
               env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())})
    return path
