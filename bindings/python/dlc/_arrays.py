"""Arrays of the caller's, as the library takes them."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ._errors import INPUT, Error
from ._library import Description

_NAMES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool")
_BYTE = ctypes.c_char
# The types of the elements that the library reads and writes.
_MEMORY = {name: np.dtype("uint16" if name == "bfloat16" else name) for name in _NAMES}


class Tensor(NamedTuple):
    """The description of an input, a target, an output, a metric or a parameter.

    `shape` of an array with samples begins with the most that one run of the network takes; calls
    take more or fewer. `axes` are the names of the axes in the model. `dtype` is NumPy's name of
    the type, or "bfloat16", which NumPy lacks: values are float32 there.
    """
    name: str
    dtype: str
    shape: Tuple[int, ...]
    axes: Tuple[str, ...]

    def __str__(self) -> str:
        axes = (f"{a}={n}" if a and a != "N" else a or str(n)
                for a, n in zip(self.axes, self.shape))
        return f"{self.name}: {self.dtype}[{', '.join(axes)}]"


class Pointers:
    """Addresses of arrays, as an argument of the library's functions. They are valid as long as the
    arrays of `set` live."""

    def __init__(self, count: int) -> None:
        self.array = (ctypes.c_void_p * max(count, 1))()

    def set(self, arrays: Sequence[Optional[np.ndarray]]) -> None:
        for i, a in enumerate(arrays):
            self.array[i] = None if a is None else _address(a)


def _address(array: np.ndarray) -> int:
    try:
        return ctypes.addressof(_BYTE.from_buffer(array))  # a third of the time of ctypes.data
    except (TypeError, ValueError):  # read-only, or without elements
        return array.ctypes.data


def describe(d: Description) -> Tensor:
    axes = tuple((d.axis[i] or b"").decode() for i in range(d.rank))
    return Tensor(d.name.decode(), _NAMES[d.dtype], tuple(d.shape[:d.rank]), axes)


class Place:
    """Where arrays of a tensor go: what an array must be for the library to read or write it."""

    def __init__(self, t: Tensor, samples: bool = True) -> None:
        self.tensor, self.name, self.samples = t, t.name, samples
        self.dtype = _MEMORY[t.dtype]  # of the elements in memory
        self.rank, self.fixed = len(t.shape), t.shape[samples:]  # the first axis may have any length

    def fits(self, array: np.ndarray) -> bool:
        """Whether the library can take the array's memory as it is."""
        flags = array.flags
        return (array.dtype == self.dtype and array.ndim == self.rank
                and array.shape[self.samples:] == self.fixed and flags.c_contiguous and flags.aligned)

    def take(self, value: Any) -> np.ndarray:
        """A dense array that holds exactly the value. Errors: another shape; a type that cannot
        hold the numbers."""
        if type(value) is np.ndarray and self.fits(value) and self.tensor.dtype != "bfloat16":
            return value
        return _to_memory(self.tensor, value, self.samples)

    def empty(self, *samples: int) -> np.ndarray:
        return np.empty((*samples, *self.fixed), self.dtype)


def from_memory(t: Tensor, array: np.ndarray) -> np.ndarray:
    """An array of the library's, with a type that NumPy knows."""
    return (array.astype("uint32") << 16).view("float32") if t.dtype == "bfloat16" else array


def _to_memory(t: Tensor, value: Any, samples: bool) -> np.ndarray:
    array, literal = _to_numpy(t, value)
    shape = t.shape if not samples or array.ndim == 0 else (array.shape[0], *t.shape[1:])
    if array.shape != shape:
        wanted = ", ".join(["samples", *map(str, t.shape[1:])] if samples else map(str, t.shape))
        raise Error(INPUT, f"'{t.name}' is of the shape ({wanted}), and the array "
                           f"({', '.join(map(str, array.shape))})")
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise Error(INPUT, f"'{t.name}' is {t.dtype}, and the array {array.dtype}, "
                           "which is no type of numbers that converts to it")
    if t.dtype == "bfloat16":
        return _to_bfloat16(t, array, literal)
    if array.dtype.name == "bfloat16":
        array = array.astype("float32")
    if array.dtype == _MEMORY[t.dtype]:
        return np.require(array, requirements=["C", "A"])
    return np.require(_convert(t, array, literal), requirements=["C", "A"])


def _to_numpy(t: Tensor, value: Any) -> Tuple[np.ndarray, bool]:
    """Any array as NumPy's, without a copy where that can be, and whether it was numbers of
    Python's own, which have no type that the caller chose."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise Error(INPUT, f"'{t.name}': the array is masked; fill it first, by filled()")
    if isinstance(value, np.ndarray):
        return np.asarray(value), False
    literal = isinstance(value, (bool, int, float, list, tuple))
    fault: Optional[Exception] = None
    if callable(getattr(value, "detach", None)):
        value = value.detach()  # a tensor of PyTorch's that requires gradients is not given away
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value), False
        except (BufferError, RuntimeError, TypeError, ValueError) as refused:
            fault = refused
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError) as refused:
        fault = fault or refused
        raise Error(INPUT, f"'{t.name}': NumPy cannot take this {type(value).__name__}: "
                           f"{fault}") from None
    return array, literal


def _convert(t: Tensor, array: np.ndarray, literal: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        new = array.astype(t.dtype)
        if literal and array.dtype.kind == "f" and new.dtype.kind == "f":
            return new
        back = new.astype(array.dtype)
    _refuse_changed(t, array, (back == array) | ((back != back) & (array != array)))
    return new


def _to_bfloat16(t: Tensor, array: np.ndarray, literal: bool) -> np.ndarray:
    if array.dtype.name == "bfloat16":
        return np.require(array, requirements=["C", "A"]).view("uint16")
    wide = _convert(t._replace(dtype="float32"), array, literal)
    bits = np.require(wide, requirements=["C"]).view("uint32")
    _refuse_changed(t, array, (bits & 0xffff == 0) | (wide != wide))
    return (bits >> 16 | (wide != wide) * np.uint32(0x40)).astype("uint16")


def _refuse_changed(t: Tensor, array: np.ndarray, same: np.ndarray) -> None:
    if same.all():
        return
    at = tuple(int(i[0]) for i in np.nonzero(~same))
    rounded = f" by .astype('{t.dtype}')" if t.dtype != "bfloat16" else ""
    raise Error(INPUT, f"'{t.name}' is {t.dtype}, and the array {array.dtype}: {t.dtype} does not "
                       f"hold element {at}, {array[at]!r}; convert the array{rounded} where "
                       "rounding is meant")
