"""Inputs and outputs of programs, as the C API describes them."""

import ctypes
from dataclasses import dataclass

import numpy as np

from . import _native
from ._native import Tensor

INT64 = np.iinfo(np.int64)
_DTYPE_NUMBERS = {np.dtype(name): number for number, name in enumerate(_native.DTYPES)}


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a program: its dtype and its largest shape. A plain integer has neither."""

    dtype: np.dtype | None
    shape: tuple[int, ...] | None

    @classmethod
    def from_native(cls, tensor: Tensor) -> "TensorSpec":
        if tensor.is_int:
            return cls(None, None)
        return cls(np.dtype(_native.DTYPES[tensor.dtype]), tuple(tensor.shape[: tensor.rank]))


def fill_input(tensor: Tensor, value, spec: TensorSpec | None, kept: list) -> None:
    """Describes a value to the library, which decides whether it is accepted. Unknown types go by NumPy's name."""
    if spec is not None and spec.dtype is None and hasattr(value, "__index__") and not hasattr(value, "shape"):
        integer = int(value)
        tensor.is_int = 1
        if INT64.min <= integer <= INT64.max:
            tensor.integer = integer
        else:
            tensor.word = _keep(str(integer), kept)
        return
    if _is_masked(value):
        tensor.word = _keep("a masked array", kept)
        return
    array = np.asarray(value)
    # A list has no dtype, so convert it if that loses precision at most; otherwise the library refuses it. NumPy gives
    # uint64 for integers beyond int64.
    untold = spec is not None and spec.dtype is not None and not hasattr(value, "dtype") and array.dtype != np.uint64
    if untold and (array.size == 0 or np.can_cast(array.dtype, spec.dtype, "same_kind")):
        array = array.astype(spec.dtype, copy=False)
    native = array.dtype.newbyteorder("=")
    number = _DTYPE_NUMBERS.get(native)
    if number is None:
        tensor.word = _keep(str(native), kept)
    else:
        tensor.dtype = number
        array = np.require(array, native, "C")
        kept.append(array)
    tensor.rank = array.ndim
    known = array.shape[: _native.MAX_RANK]
    tensor.shape[: len(known)] = known
    tensor.data = ctypes.c_void_p(array.ctypes.data)
    tensor.bytes = array.nbytes


def _is_masked(value) -> bool:
    """Whether NumPy would lose a mask on the way to a plain array."""
    if isinstance(value, list | tuple):
        return any(map(_is_masked, value))
    return isinstance(value, np.ma.MaskedArray)


def _keep(word: str, kept: list) -> bytes:
    kept.append(word.encode())
    return kept[-1]
