#!/usr/bin/env python3
"""scripts/install-nvrtc next to an index of our own on this machine: nothing is downloaded from elsewhere."""
import contextlib
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import platform
import shutil
import sys
import tempfile
import threading
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"failed: {what}")


def script():
    loader = importlib.machinery.SourceFileLoader("install_nvrtc", str(ROOT / "scripts/install-nvrtc"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("install_nvrtc", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def run(module, *arguments):
    """Its exit status and what it says."""
    said = io.StringIO()
    sys.argv = ["install-nvrtc", *arguments]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = module.main()
    return status, said.getvalue()


def make_index(folder, module, library, major=13):
    """A page of the index, and a wheel with a library in it; the wheel's sha256."""
    name, page = module.WHEELS[major, platform.machine()][0], folder / module.PACKAGES[major][0]
    page.mkdir()
    with zipfile.ZipFile(folder / name, "w") as wheel:
        for file in (f"libnvrtc.so.{major}", f"libnvrtc-builtins.so.{major}.0", f"libnvrtc.alt.so.{major}"):
            wheel.writestr(f"nvidia/cu{major}/lib/{file}", library)
        wheel.writestr("nvidia/cu13/include/nvrtc.h", "")
        wheel.writestr("nvidia_cuda_nvrtc-13.0.88.dist-info/licenses/License.txt", "")
    (page / "index.html").write_text(f'<a href="other.whl">x</a><a href="../{name}#sha256=0">{name}</a>')
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def main():
    if platform.machine() not in ("x86_64", "aarch64"):
        return 77
    module = script()
    with tempfile.TemporaryDirectory(prefix="dlc_install_") as top:
        top = pathlib.Path(top)
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH", "XDG_CACHE_HOME", "DLC_NVRTC"):
            os.environ.pop(name, None)
        os.environ.update(HOME=str(top / "home"), NO_PROXY="*")
        (top / "index").mkdir()
        handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {
            "__init__": lambda self,
            *a: http.server.SimpleHTTPRequestHandler.__init__(self, *a, directory=str(top / "index")),
            "log_message": lambda *a: None})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ["PIP_INDEX_URL"] = f"http://127.0.0.1:{server.server_port}"
        place = top / "home/.cache/dlc-nvrtc"

        os.environ["DLC_NVRTC"] = str(top / "nowhere")
        status, said = run(module)
        check(status == 5 and str(top / "nowhere") in said, f"a choice that leads nowhere: {status} {said}")
        (top / "chosen").write_text("")
        os.environ["DLC_NVRTC"] = str(top / "chosen")
        check(run(module) == (0, ""), "a choice that is there")
        del os.environ["DLC_NVRTC"]
        check(run(module, "--what")[0] == 2, "an unknown option")

        # From here on as on a machine that has none: only what lies in our home loads.
        module.driver_version = lambda: 0
        module.loads = lambda name: str(name).startswith(str(top / "home")) and pathlib.Path(name).read_bytes(
        ) == b"library"
        status, said = run(module)
        check(status == 5 and "cannot be downloaded" in said and not place.exists(),
              f"an index without it: {status} {said}")
        digest = make_index(top / "index", module, b"library")
        status, said = run(module)
        check(status == 5 and digest in said and not place.exists(), f"a wheel that was not pinned: {status} {said}")
        key = 13, platform.machine()
        module.WHEELS[key] = (module.WHEELS[key][0], digest)
        status, said = run(module)
        check(status == 0 and "installing" in said, f"the wheel that was pinned: {status} {said}")
        got = sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())
        check(got == ["nvidia/cu13/lib/libnvrtc-builtins.so.13.0", "nvidia/cu13/lib/libnvrtc.so.13",
                      "nvidia_cuda_nvrtc-13.0.88.dist-info/licenses/License.txt"], f"unpacked {got}")
        check(run(module) == (0, ""), "the second time, nothing is said")
        (place / "nvidia/cu13/lib/libnvrtc.so.13").write_bytes(b"damaged")
        check(run(module)[0] == 0 and (place / "nvidia/cu13/lib/libnvrtc.so.13").read_bytes() == b"library", "replaced")
        check(os.listdir(place.parent) == ["dlc-nvrtc"], f"left over: {os.listdir(place.parent)}")
        module.driver_version = lambda: 12040
        key = 12, platform.machine()
        module.WHEELS[key] = (module.WHEELS[key][0], make_index(top / "index", module, b"library", 12))
        status, said = run(module)
        check(status == 0 and "nvidia-cuda-nvrtc-cu12 12" in said
              and (place / "nvidia/cu12/lib/libnvrtc.so.12").exists(),
              f"next to a driver of CUDA 12, which loads no code of 13: {status} {said}")
        check(run(module) == (0, ""), "and the second time")
        server.shutdown()
        server.server_close()
        shutil.rmtree(place)
        status, said = run(module)
        check(status == 5 and "tests that need it are skipped" in said and "Traceback" not in said,
              f"no network: {status} {said}")
        os.environ["VIRTUAL_ENV"] = str(top / "home/[env]")
        library = top / "home/[env]/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib"
        library.mkdir(parents=True)
        (library / "libnvrtc.so.12").write_bytes(b"library")
        check(run(module) == (0, ""), "a package of the environment")
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or not passed


if __name__ == "__main__":
    sys.exit(main())
