"""Makes programs (.pte) of one delegate without the exporter.

    p = Program()
    out = p.output(wanted)
    p.op("aten.mm.default", p.input(a), p.constant(b), out)
    path.write_bytes(p.pte())

Arguments that are no value ids are written as they are in Python: None, (1,), (0.5,), (True,), ("relu",), and [1, 2]
for a list of integers.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

from .flat import Numbers, Scalar, Table, write

# Numbers of an element type in the delegate and in the program.
_TYPES = {"bool": (0, 11), "uint8": (1, 0), "int8": (2, 1), "int32": (3, 3), "float16": (4, 5), "float32": (5, 6)}


class Id(NamedTuple):
    """A value of the graph."""

    number: int


def _int(value: int) -> Scalar:
    return Scalar("i", value)


def _byte(value: int) -> Scalar:
    return Scalar("b", value)


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 16)


class Program:
    """With one call: `inputs`, and the results `wanted`. `dynamic`: other calls may have smaller inputs. `options`: of
    the load; the results that they add are `added`."""

    def __init__(self, dynamic: bool = False) -> None:
        self._dynamism = int(dynamic)
        self.inputs: list[np.ndarray] = []
        self.wanted: list[np.ndarray] = []
        self.options: dict[str, Any] = {}
        self.added: list[np.ndarray] = []
        self._values: list[Table] = []
        self._ends: tuple[list[int], list[int]] = ([], [])
        self._chain: list[Table] = []
        self._constants: list[Table] = []
        self._data = b""

    def input(self, array: np.ndarray) -> Id:
        made = self.tensor(array.dtype.name, array.shape)
        self.inputs.append(array)
        self._ends[0].append(made.number)
        return made

    def output(self, wanted: np.ndarray) -> Id:
        made = self.tensor(wanted.dtype.name, wanted.shape)
        self.wanted.append(wanted)
        self._ends[1].append(made.number)
        return made

    def constant(self, array: np.ndarray, mem_obj: int = -1) -> Id:
        data = np.ascontiguousarray(array).tobytes()
        self._constants.append(Table([Scalar("Q", len(self._data)), Scalar("Q", len(data))]))
        self._data += _aligned(data)
        return self.tensor(array.dtype.name, array.shape, len(self._constants) - 1, mem_obj)

    def tensor(self, dtype: str, shape: tuple[int, ...], constant: int = -1, mem_obj: int = -1) -> Id:
        kind, _ = _TYPES[dtype]
        fields = [_byte(kind), Numbers("I", shape), _int(constant), _int(mem_obj), None, None, _byte(kind)]
        return self._add(5, fields)

    def values(self, *ids: Id) -> Id:
        """A list of values."""
        return self._add(9, [Numbers("i", [one.number for one in ids])])

    def symint(self) -> Id:
        return self._add(11, [_int(0)])

    def op(self, name: str, *arguments: Any) -> None:
        ids = [one.number if isinstance(one, Id) else self._written(one).number for one in arguments]
        self._chain.append(Table([Scalar("I", len(self._chain)), name, Numbers("i", ids)]))

    def _add(self, kind: int, fields: list) -> Id:
        self._values.append(Table([Scalar("B", kind), Table(fields)]))
        return Id(len(self._values) - 1)

    def _written(self, value: Any) -> Id:
        if value is None:
            return self._add(1, [])
        if isinstance(value, list):
            return self._add(6, [Numbers("q", value)])
        (one,) = value
        if isinstance(one, bool):
            return self._add(4, [Scalar("?", one)])
        if isinstance(one, int):
            return self._add(2, [Scalar("q", one)])
        return self._add(3, [Scalar("d", one)]) if isinstance(one, float) else self._add(10, [one])

    def _blob(self) -> bytes:
        ends = [Numbers("I", ids) for ids in self._ends]
        graph = write(Table(["0", self._chain, self._values, *ends, self._constants, []]), "VK00")
        body = _aligned(graph)
        header = struct.pack("<4x4sHIIIQ", b"VH00", 30, 32, len(graph), 32 + len(body), len(self._data))
        return _aligned(header) + body + self._data

    def pte(self) -> bytes:
        """A program whose method `forward` is this graph."""
        arrays = [*self.inputs, *self.wanted]
        ids, memory, tensors = list(range(len(arrays))), 0, []
        for array in arrays:
            place = Table([Scalar("I", 1), Scalar("I", memory), Scalar("I", 0)])
            order = Numbers("B", range(array.ndim))
            fields = [_byte(_TYPES[array.dtype.name][1]), _int(0), Numbers("i", array.shape), order]
            fields += [Scalar("?", False), Scalar("I", 0), place, _byte(0), _byte(self._dynamism)]
            tensors.append(Table([Scalar("B", 5), Table(fields)]))
            memory += len(_aligned(bytes(array.nbytes)))
        call = Table([Scalar("B", 2), Table([_int(0), Numbers("i", ids)])])
        count = len(self.inputs)
        delegate = Table(["VulkanBackend", Table([_byte(0), Scalar("I", 0)]), []])
        chain = Table([Numbers("i", []), Numbers("i", []), [call]])
        sizes = Numbers("q", [0, max(memory, 16)])
        ends = Numbers("i", ids[:count]), Numbers("i", ids[count:])
        forward = Table(["forward", Table(["", ""]), tensors, *ends, [chain], [], [delegate], sizes])
        return write(Table([Scalar("I", 0), [forward], [Table([b""])], [Table([self._blob()])]]), "ET12")
