"""PyTorch's results, which take longer than what they are compared with: computed once.

remembered(f, *args) is f(*args), or what that gave before: the same function of the same sources of this test, of the
same arguments, by the same PyTorch on the same kind of CPU. Results lie in DLC_TEST_CACHE, which scripts/test names;
without it everything is computed.
"""
import hashlib
import os
import pathlib
import sys
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent


def cpu():
    """The lines of the first CPU that say which one it is: PyTorch's kernels depend on it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.startswith(("model", "flags", "vendor")))


def sources():
    """The test's own files, by what they hold."""
    paths = {pathlib.Path(m.__file__).resolve() for m in list(sys.modules.values()) if getattr(m, "__file__", None)}
    return "\0".join(p.read_text() for p in sorted(paths) if p.parent == HERE)


def add(h, x):
    """Adds an argument to a hash: tensors and modules by their numbers."""
    h.update(type(x).__name__.encode())
    if torch.is_tensor(x):
        h.update(f"{x.dtype}{tuple(x.shape)}".encode())
        h.update(x.detach().numpy().tobytes())
    elif isinstance(x, torch.nn.Module):
        h.update(repr(x).encode())
        add(h, dict(x.state_dict()))
    elif isinstance(x, dict):
        for key, value in x.items():
            add(h, key), add(h, value)
    elif isinstance(x, (list, tuple)):
        for value in x:
            add(h, value)
    elif callable(x):
        h.update(x.__qualname__.encode())
    else:
        h.update(repr(x).encode())


def remembered(f, *args):
    """f(*args), for functions that change none of their arguments, or none that is used later. What it draws at random
    is the same each time."""
    folder = os.environ.get("DLC_TEST_CACHE")
    if not folder:
        return f(*args)
    h = hashlib.sha256("\0".join((f.__qualname__, torch.__version__, cpu(), str(torch.get_num_threads()),
                                  sources())).encode())
    h.update(torch.get_rng_state().numpy().tobytes())
    add(h, args)
    path = pathlib.Path(folder, f"{h.hexdigest()[:32]}.oracle")
    try:
        found = torch.load(path)
        os.utime(path)  # scripts/test removes what no test has asked for in two weeks
    except (OSError, RuntimeError, EOFError):
        found = f(*args), torch.get_rng_state()
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".oracle", delete=False) as to:
            torch.save(found, to)
        os.replace(to.name, path)
    result, state = found
    torch.set_rng_state(state)
    return result
