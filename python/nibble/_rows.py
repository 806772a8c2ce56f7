"""Batches of rows: columns by name or Arrow tables, as Ray Data hands them over, or plain lists of rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ._native import NibbleError

Columns = Mapping[str, Sequence | np.ndarray]
Row = Mapping[str, Any]


def take_batch(given: Any, reads: Iterable[str], writes: Iterable[str]) -> "Batch":
    """reads: columns that must be there; writes: those that will be added."""
    batch = _form_of(given)
    # Of no rows, not even the columns' names may be known.
    for name in reads if batch.count else ():
        if name not in batch.names:
            others = ", ".join(map(repr, batch.names)) or "none"
            raise _wrong(f"there is no column {name!r} among {others}: the argument 'columns' chooses another one")
    for name in writes:
        if name in batch.names:
            raise _wrong(f"there is a column {name!r} already: the argument 'columns' gives the new one another name")
    return batch


def _form_of(given: Any) -> "Batch":
    if isinstance(given, Mapping):
        return _ColumnsBatch(given)
    if isinstance(given, list | tuple):
        return _RowsBatch(given)
    if _kind(given) == "pyarrow.Table":
        return _TableBatch(given)
    raise _wrong(
        f"a batch must be columns by name, an Arrow table or a list of rows, but it is {_kind(given)}: "
        "Ray gives the first with batch_format='numpy', its default, and the second with 'pyarrow'"
    )


class Batch:
    """Rows to which columns are added. What comes out has the form of what came in, with all that was there."""

    names: list[str]
    count: int

    def column(self, name: str) -> list:
        """Its values; None for a row that has none, and so everywhere if there is no such column."""
        return self._column(name) if name in self.names else [None] * self.count

    def _column(self, name: str) -> list:
        raise NotImplementedError

    def with_columns(self, made: Columns) -> Any:
        """made: texts as lists, numbers as arrays."""
        raise NotImplementedError


class _ColumnsBatch(Batch):
    """Lists or NumPy arrays, which are as long as each other."""

    def __init__(self, given: Columns):
        self._given, self.names, self.count = given, list(given), 0
        for name, values in given.items():
            if not isinstance(values, list | tuple | np.ndarray) or getattr(values, "ndim", 1) == 0:
                raise _wrong(f"column {name!r} must be a list or a NumPy array, but it is {_kind(values)}")
            if name == self.names[0]:
                self.count = len(values)
            elif len(values) != self.count:
                raise _wrong(f"column {name!r} has {len(values)} rows, but {self.names[0]!r} has {self.count}")

    def _column(self, name: str) -> list:
        return list(self._given[name])

    def with_columns(self, made: Columns) -> dict:
        kept = {name: _without_arrays(values) for name, values in self._given.items()}
        return {**kept, **{name: _as_array(values) for name, values in made.items()}}


class _RowsBatch(Batch):
    def __init__(self, given: Sequence[Row]):
        for place, row in enumerate(given):
            if not isinstance(row, Mapping):
                raise _wrong(f"row {place} must have values by name, but it is {_kind(row)}")
        self._given, self.count = given, len(given)
        self.names = list(dict.fromkeys(name for row in given for name in row))

    def _column(self, name: str) -> list:
        return [row.get(name) for row in self._given]

    def with_columns(self, made: Columns) -> list[dict]:
        return [
            {**row, **{name: _as_scalar(values[place]) for name, values in made.items()}}
            for place, row in enumerate(self._given)
        ]


class _TableBatch(Batch):
    def __init__(self, given):
        self._given, self.names, self.count = given, given.column_names, given.num_rows

    def _column(self, name: str) -> list:
        return self._given.column(name).to_pylist()

    def with_columns(self, made: Columns):
        table = self._given
        for name, values in made.items():
            table = table.append_column(name, as_arrow(values))
        return table


def as_arrow(values: Sequence[str] | np.ndarray):
    """A column of texts, of numbers, or of vectors, which are all as long."""
    import pyarrow

    if not isinstance(values, np.ndarray):
        return pyarrow.array(values, pyarrow.string())
    if values.ndim == 1:
        return pyarrow.array(values)
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])


def plain(value: Any) -> Any:
    """Without NumPy: Arrow's lists come in arrays, however deep."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def _without_arrays(values: Sequence | np.ndarray) -> Sequence | np.ndarray:
    """Ray gives arrays of arrays of objects where Arrow had lists, but makes no lists of them again."""
    if not (isinstance(values, np.ndarray) and values.dtype == object):
        return values
    if not any(isinstance(one, np.ndarray) and one.dtype == object for one in values):
        return values
    return _objects([plain(one) for one in values])


def _as_array(values: Sequence[str] | np.ndarray) -> np.ndarray:
    """Texts as objects, because NumPy's own would all take as much memory as the longest. Of no texts nobody would know
    that they are texts."""
    if isinstance(values, np.ndarray):
        return values
    return _objects(values) if values else np.array([], str)


def _objects(values: Sequence) -> np.ndarray:
    """One for each, also where they are lists of one length."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _as_scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _kind(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _wrong(sentence: str) -> NibbleError:
    return NibbleError(sentence, "invalid_argument")
