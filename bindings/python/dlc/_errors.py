"""How calls fail."""
from __future__ import annotations

import ctypes
from typing import NoReturn

from ._library import Status

USAGE, INPUT = 2, 3


class Error(Exception):
    """A call that the library refused.

    `code` is the exit status that `dlrun` would have: 2 usage, 3 a model, file or array that does
    not fit, 4 files, 5 memory, device or compiler, 6 a file that others may write, 7 numbers that
    are not finite, 70 a fault of the library. `message` is one sentence. `diagnostics` holds the
    located messages about a model's text, with carets, or is empty.
    """

    def __init__(self, code: int, message: str, diagnostics: str = "") -> None:
        super().__init__(code, message, diagnostics)
        self.code, self.message, self.diagnostics = code, message, diagnostics

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.message, self.diagnostics.rstrip("\n")]))


class Warning(UserWarning):
    """Something that `dlc.open` met and went on from."""


def raise_status(status: Status, diagnostics: str = "") -> NoReturn:
    """Raises the Error of a status, after a call that returned 0."""
    raise Error(status.code, status.message.decode(errors="replace"), diagnostics)


def new_status() -> tuple[Status, object]:
    """A status, and the pointer to it that a call takes."""
    status = Status()
    return status, ctypes.byref(status)
