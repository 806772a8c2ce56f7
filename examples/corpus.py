"""A corpus as rows: text or Parquet files, taken apart, and a folder of Parquet files that are whole or not there."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from nibble import NibbleError
from nibble._commands.terminal import UsageError, counted
from nibble._files import new_file
from nibble._text.needed import needed

TEXTS, PARQUET = (".txt", ".md"), ".parquet"
ADDED = ("embedding", "tokens", "truncated", "error")
FACTS = "_corpus.json"  # readers of Parquet leave out what begins so


@dataclass(frozen=True)
class Slice:
    """Rows of a file. Of Parquet those from `start` to `stop`; of a text the bytes, which begin in line `line`."""

    file: str
    start: int
    stop: int
    rows: int
    line: int = 0


@dataclass(frozen=True)
class Done:
    """What came of a part. It is written into the part as well."""

    rows: int
    tokens: int
    truncated: int
    errors: int


def arrow(module: str = "pyarrow"):
    return needed(module, "ray")


def parquet():
    return arrow("pyarrow.parquet")


def is_parquet(path: Path | str) -> bool:
    return Path(path).suffix.lower() == PARQUET


def find_files(inputs: list[str], output: Path) -> list[Path]:
    """All files, which must be of one kind, in the order of their names. What is in the output is none."""
    files = []
    for given in map(Path, inputs):
        if not given.exists():
            raise UsageError(f"'{given}' is not there")
        found = [given]
        if given.is_dir():
            found = sorted(path for path in given.rglob("*") if path.is_file())
            found = [path for path in found if path.suffix.lower() in (*TEXTS, PARQUET)]
        files += [path.resolve() for path in found if output.resolve() not in path.resolve().parents]
    if not files:
        raise UsageError(f"no file in {', '.join(inputs)} ends in {', '.join(TEXTS)} or {PARQUET}")
    kinds = {is_parquet(path): path for path in files}
    if len(kinds) == 2:
        raise UsageError(f"'{kinds[True]}' is Parquet, but '{kinds[False]}' is text: they have no columns in common")
    return files


def check_schemas(files: list[Path], column: str) -> None:
    first = None
    for file in files:
        try:
            schema = parquet().read_schema(file)
        except OSError as error:
            raise UsageError(f"'{file}' cannot be read: {reason(error)}") from None
        except arrow().ArrowException as error:
            raise UsageError(f"'{file}' is no Parquet file: {reason(error)}") from None
        if column not in schema.names:
            raise UsageError(f"'{file}' has no column '{column}' among {', '.join(schema.names)}: --column says which")
        kind = schema.field(column).type
        if not (arrow().types.is_string(kind) or arrow().types.is_large_string(kind)):
            raise UsageError(f"column '{column}' of '{file}' is {kind}, but it must be text")
        if taken := [name for name in ADDED if name in schema.names]:
            raise UsageError(f"'{file}' has a column '{taken[0]}' already")
        first = first or schema
        if not schema.equals(first):
            raise UsageError(f"'{file}' has other columns than '{files[0]}'")


def plan(files: list[Path], most: int) -> list[list[Slice]]:
    """Parts of so many rows; the last one may have fewer."""
    parts, rows = [[]], 0
    for file in files:
        for piece in (parquet_slices if is_parquet(file) else text_slices)(file, most - rows, most):
            parts[-1].append(piece)
            rows += piece.rows
            if rows == most:
                parts.append([])
                rows = 0
    return [part for part in parts if part]


def parquet_slices(file: Path, room: int, most: int) -> Iterator[Slice]:
    """room: rows of the first slice, at most; most: of the others."""
    start, total = 0, parquet().read_metadata(file).num_rows
    while start < total:
        rows = min(room, total - start)
        yield Slice(str(file), start, start + rows, rows)
        start, room = start + rows, most


def text_slices(file: Path, room: int, most: int) -> Iterator[Slice]:
    start, stop, rows, first = 0, 0, 0, 1
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            stop += len(line)
            rows += bool(text_of(line))
            if rows == room:
                yield Slice(str(file), start, stop, rows, first)
                start, rows, first, room = stop, 0, number + 1, most
    if rows:
        yield Slice(str(file), start, stop, rows, first)


def text_of(line: bytes) -> str:
    return line.decode(errors="replace").lstrip("\ufeff").strip()


class PartReader:
    """Reads parts. The last row group of Parquet is kept: it may have the rows of many parts, but can only be decoded
    as a whole."""

    def __init__(self):
        self._key, self._group = None, None

    def read(self, part: list[Slice]):
        """Its rows, as an Arrow table."""
        tables = []
        for piece in part:
            try:
                tables.append((self._read_parquet if is_parquet(piece.file) else read_text)(piece))
            except (OSError, arrow().ArrowException) as error:
                raise NibbleError(f"'{piece.file}' cannot be read: {reason(error)}", "io") from None
            if tables[-1].num_rows != piece.rows:
                raise NibbleError(f"'{piece.file}' was changed after this run began", "io")
        return arrow().concat_tables(tables)

    def _read_parquet(self, piece: Slice):
        file, version = parquet().ParquetFile(piece.file), stamp(Path(piece.file))
        tables, end = [], 0
        for number in range(file.num_row_groups):
            begin, end = end, end + file.metadata.row_group(number).num_rows
            start, stop = max(piece.start, begin), min(piece.stop, end)
            if start < stop:
                key = (piece.file, version, number)
                if key != self._key:
                    self._key, self._group = None, None  # before the next one takes memory too
                    self._group = file.read_row_group(number)
                    self._key = key
                tables.append(self._group.slice(start - begin, stop - start))
        return arrow().concat_tables(tables or [file.schema_arrow.empty_table()])


def reason(error: Exception) -> str:
    """What the system says, or Arrow, whose errors may have several lines."""
    return getattr(error, "strerror", None) or " ".join(str(error).split())


def read_text(piece: Slice):
    with open(piece.file, "rb") as file:
        file.seek(piece.start)
        lines = file.read(piece.stop - piece.start).split(b"\n")
    rows = [(piece.line + place, text) for place, line in enumerate(lines) if (text := text_of(line))]
    columns = {"file": [piece.file] * len(rows), "line": [line for line, _ in rows], "text": [text for _, text in rows]}
    return arrow().table(columns)


def part_path(output: str | Path, number: int) -> Path:
    return Path(output) / f"part-{number:05d}{PARQUET}"


def write_part(table, path: Path, done: Done) -> None:
    """It gets its name when it is complete."""
    metadata = {**(table.schema.metadata or {}), b"nibble": json.dumps(asdict(done)).encode()}
    unfinished = path.with_name(f"_{path.name}.{os.uname().nodename}.{os.getpid()}")
    try:
        parquet().write_table(table.replace_schema_metadata(metadata), unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_done(path: Path) -> Done | None:
    """None if there is no such part, or none that is whole."""
    try:
        return Done(**json.loads(parquet().read_schema(path).metadata[b"nibble"]))
    except (OSError, ValueError, TypeError, LookupError):  # Arrow's own are among them
        return None


class Corpus:
    """Parts, and which of them are done."""

    def __init__(self, inputs: list[str], output: str, column: str, part_rows: int, **settings: str | None):
        """settings: what else decides what is in the parts."""
        self.output = Path(output)
        files = find_files(inputs, self.output)
        self.column = column if is_parquet(files[0]) else "text"
        if is_parquet(files[0]):
            check_schemas(files, self.column)
        self.parts = plan(files, part_rows)
        self.rows = sum(piece.rows for part in self.parts for piece in part)
        facts = {"column": self.column, "part-rows": part_rows, **settings}
        self._keep_facts({**facts, "files": [[str(file), *stamp(file)] for file in files]})
        self.remove_unfinished()
        self.look()

    def look(self) -> None:
        """What is there, whoever wrote it."""
        found = {number: read_done(part_path(self.output, number)) for number in range(len(self.parts))}
        self.done = {number: done for number, done in found.items() if done is not None}

    def take(self, number: int) -> None:
        """A part that was just made, maybe on another machine."""
        path = part_path(self.output, number)
        if (done := read_done(path)) is None:
            sentence = f"part {number} was made, but '{path}' is not here: all machines must see the same folder"
            raise NibbleError(sentence, "io")
        self.done[number] = done

    @property
    def rows_done(self) -> int:
        return sum(done.rows for done in self.done.values())

    @property
    def kept(self) -> str:
        self.look()
        parts, rows = counted(len(self.parts), "part"), counted(self.rows, "row")
        done = f"{len(self.done)} of {parts} ({self.rows_done} of {rows})"
        return f"{done} in '{self.output}' are done, and the same command goes on from there"

    def remove_unfinished(self) -> None:
        """What a process that was killed has left."""
        for path in self.output.glob("_part-*"):
            path.unlink(missing_ok=True)

    def _keep_facts(self, facts: dict) -> None:
        """Parts of another corpus must not be taken for this one's."""
        path = self.output / FACTS
        if not path.exists():
            self.output.mkdir(parents=True, exist_ok=True)
            with new_file(path) as file:
                file.write(json.dumps(facts).encode())
            return
        try:
            known = dict(json.loads(path.read_bytes()))
        except (ValueError, TypeError):
            raise UsageError(f"'{path}' is damaged: give another --output") from None
        for name, value in facts.items():
            if known.get(name) != value:
                how = "of other files, or of what they were" if name == "files" else f"of {name} {known.get(name)}"
                raise UsageError(f"'{self.output}' holds parts {how}: give another --output")


def stamp(path: Path) -> list[int]:
    return [path.stat().st_size, path.stat().st_mtime_ns]
