"""Packages that are texts: a container's definition, a recipe of Spack, a module file."""
import hashlib
import pathlib
import re
import textwrap

from facts import (DESCRIPTION, LICENSE, SUMMARY, VERSION, build_packages, fail, install_commands, write_archive)

# ---- Apptainer ----

CONTAINER = """# {summary}. Build it where the archive lies next to this file: apptainer build dlc.sif dlc.def
Bootstrap: docker
From: debian:12

%files
    {archive} /opt/{archive}

%post
    tar -xf /opt/{archive} -C /opt
    cd /opt/dlc-{version}
{commands}
    meson install -C build
    ldconfig
    cd / && rm -r /opt/dlc-{version} /opt/{archive}

%environment
    export LC_ALL=C.UTF-8

%runscript
    exec dlrun "$@"

%test
    dlc check models/unet.dl
    dlc verify models/cnn_classifier.dl

%labels
    Version {version}
    License {license}
"""


def make_apptainer(options):
    """Its %post are the README's commands, in the unpacked archive."""
    archive = write_archive(options.out)
    path = options.out / "dlc.def"
    path.write_text(CONTAINER.format(summary=SUMMARY, version=VERSION, license=LICENSE, archive=archive.name,
                                     commands=textwrap.indent("\n".join(install_commands()), "    ")))
    return path


# ---- Spack ----

# The packages of scripts/install-packages: what Spack calls them, and when they are needed. None: Spack's own, or a
# variant's.
OF_SPACK = {
    "gcc": ("c", "build"), "libc6-dev": None, "meson": None, "ninja-build": None, "pkg-config": ("pkgconfig", "build"),
    "flex": ("flex", "build"), "bison": ("bison", "build"), "libyaml-dev": ("libyaml", ""),
    "libhdf5-dev": ("hdf5~mpi", ""),
    "libfftw3-dev": ("fftw precision=float", ""), "libjpeg-dev": ("libjpeg-turbo", ""), "zlib1g-dev": ("zlib-api", ""),
    "libdeflate-dev": ("libdeflate", ""), "libzstd-dev": ("zstd", ""), "libblosc-dev": ("c-blosc", ""),
    "libbz2-dev": ("bzip2", ""),
    "libopenmpi-dev": None,
    "libmpich-dev": None, "gfortran": ("fortran", "build"), "python3": ("python@3.9:", "build")}

RECIPE = '''from spack.package import *
from spack_repo.builtin.build_systems.meson import MesonPackage


class Dlc(MesonPackage):
    """{description}"""

    url = "{url}"
    license("{license}")

    version("{version}", sha256="{sha256}")

    variant("mpi", default=True, description="Ranks, by the MPI of this installation")
    variant("fortran", default=True, description="The Fortran module dlc")

{depends}
    depends_on("mpi", when="+mpi")

    def meson_args(self):
        libraries = [d.prefix.lib for d in self.spec.dependencies(deptype="link")]
        return [
            "-Dtests=false",
            "-Drpath=" + ":".join(libraries),
            "-Dmpi=" + ("enabled" if "+mpi" in self.spec else "disabled"),
            "-Dfortran=" + ("enabled" if "+fortran" in self.spec else "disabled"),
        ]
'''


def spack_dependency(debian):
    if debian not in OF_SPACK:
        fail(f"scripts/packaging/texts.py does not say what Spack calls {debian}")
    if not OF_SPACK[debian]:
        return None
    name, kind = OF_SPACK[debian]
    when = ', when="+fortran"' if name == "fortran" else ""
    return f'    depends_on("{name}"' + (f', type="{kind}"' if kind else "") + when + ")"


def make_spack(options):
    """A repository with the recipe. Kernels are compiled by the C compiler that PATH has at run time."""
    archive = write_archive(options.out)
    repository = options.out / "spack"
    path = repository / "packages/dlc/package.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    (repository / "repo.yaml").write_text("repo:\n  namespace: dlc\n  api: v2.0\n")
    depends = filter(None, map(spack_dependency, build_packages()))
    description = textwrap.fill(f"{SUMMARY}. {DESCRIPTION}", 96, subsequent_indent="    ")
    path.write_text(RECIPE.format(description=description, license=LICENSE, version=VERSION, depends="\n".join(depends),
                                  url=options.url or archive.as_uri(),
                                  sha256=hashlib.sha256(archive.read_bytes()).hexdigest()))
    return path


# ---- module file ----

MODULEFILE = """#%Module1.0
# {summary}. For Lmod and Environment Modules.
module-whatis "dlc {version}: {summary}"
proc ModulesHelp {{}} {{
    puts stderr "dlc {version}: dlc, dlrun, dldata, and the library libdlc. man dlrun says more."
}}
conflict dlc
set prefix {{{prefix}}}
prepend-path PATH $prefix/bin
prepend-path LD_LIBRARY_PATH $prefix/{lib}
prepend-path PKG_CONFIG_PATH $prefix/{lib}/pkgconfig
prepend-path CMAKE_PREFIX_PATH $prefix
# Kernels that the site has compiled, where it has any; dlc never writes there.
prepend-path DLR_CACHE_PATH $prefix/cache
"""


def make_modulefile(options):
    if not options.prefix:
        fail("modulefile: name the installed prefix by --prefix")
    prefix = pathlib.Path(options.prefix).absolute()
    found = sorted(prefix.glob("lib*/**/pkgconfig/dlc.pc"))
    if not found or not (prefix / "bin/dlrun").exists():
        fail(f"modulefile: {prefix} is no prefix with dlc: meson install --prefix")
    if re.search(r"[{}\\\\]", str(prefix)):
        fail(f"modulefile: {prefix}: a name with braces or backslashes cannot be written in Tcl")
    path = options.out / "modulefiles/dlc" / VERSION
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MODULEFILE.format(summary=SUMMARY, version=VERSION, prefix=prefix,
                                      lib=found[0].parents[1].relative_to(prefix)))
    return path
