"""A PyTorch module as a model file, in one command: exports it and calls `dlc import`.

    python -m dlc.from_torch MODULE:FUNCTION -o model.dl --weights=w.safetensors --loss=mse

FUNCTION takes no arguments and returns the module and an example of its inputs, a tensor or a
tuple of tensors whose first axis is the batch. MODULE is imported as Python does, the current
directory first. Other options are those of `dlc import`; --archive=FILE.pt2 keeps the archive.

Exit status: that of `dlc import` (0; 3: some operations are lacking, or the export failed), or 2.
"""
from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import typing

LEAST = (2, 9)  # whose archives `dlc import` reads


class Fault(Exception):
    """What the user is told, and the exit status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def find(name: str) -> typing.Callable[[], typing.Any]:
    """The function of MODULE:FUNCTION."""
    module, _, function = name.partition(":")
    if not module or not function:
        raise Fault(2, f"'{name}': MODULE:FUNCTION is expected, such as nets:make")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as fault:
        raise Fault(3, f"{module}: {fault}") from None
    for part in function.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise Fault(3, f"{module} has no function '{function}'")
    return found


def export(name: str, path: str) -> None:
    """Writes what FUNCTION returns as an archive of torch.export."""
    try:
        import torch
    except ImportError:
        raise Fault(3, "PyTorch is not installed here") from None
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < LEAST:
        raise Fault(3, f"PyTorch {torch.__version__} is older than {LEAST[0]}.{LEAST[1]}, whose archives are read")
    made = find(name)()
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise Fault(3, f"{name} returns {type(made).__name__}, not a pair of the module and an example of its inputs")
    model, example = made
    example = example if isinstance(example, tuple) else (example,)
    try:
        program = torch.export.export(model.train(), example)
    except Exception as fault:  # of many classes, some with pages of text
        first = (str(fault).strip().splitlines() or [""])[0]
        raise Fault(3, f"torch.export: {type(fault).__name__}: {first}") from None
    torch.export.save(program, path)


def main(words: typing.Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if words else 2
    archive = next((word.partition("=")[2] for word in words if word.startswith("--archive=")), None)
    rest = [word for word in words[1:] if not word.startswith("--archive=")]
    try:
        if words[0].startswith("-"):
            raise Fault(2, "MODULE:FUNCTION comes first (--help tells more)")
        program = shutil.which("dlc")
        if not program:
            raise Fault(2, "no program dlc on PATH")
        with tempfile.TemporaryDirectory() as folder:
            path = archive or os.path.join(folder, "model.pt2")
            export(words[0], path)
            return subprocess.run([program, "import", path, *rest]).returncode
    except Fault as fault:
        print(f"dlc.from_torch: error: {fault}", file=sys.stderr)
        return fault.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
