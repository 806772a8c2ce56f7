"""examples/embed_corpus.py: parts that are whole or not there, whatever happens to the process."""

import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nibble
from conformance.command import hear_ctrl_c
from support.needs import needs
from support.sum_encoder import LENGTH, TABLE, WIDTH
from support.tiny_model import make_tokenizer

pyarrow = needs("pyarrow")
parquet = needs("pyarrow.parquet")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Stops itself by a signal when so many parts are done and the next one is about to get its name.
STOPPED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import embed_corpus
left, replace = int(sys.argv[2]), os.replace
def stop(source, target):
    global left
    if str(target).endswith(".parquet"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), int(sys.argv[3]))
    replace(source, target)
os.replace = stop
sys.exit(embed_corpus.main(sys.argv[4:]))
"""
# What a part is written to is seen by nobody else.
UNSEEN = """
import sys
sys.path.insert(0, sys.argv[1])
import embed_corpus
embed_corpus.write_part = lambda table, path, done: None
sys.exit(embed_corpus.main(sys.argv[2:]))
"""
# A file is damaged when the parts are known.
DAMAGED = """
import sys
sys.path.insert(0, sys.argv[1])
import corpus, embed_corpus
plan = corpus.plan
def damage(files, most):
    parts = plan(files, most)
    files[-1].write_bytes(b"PAR1 is not all")
    return parts
corpus.plan = damage
sys.exit(embed_corpus.main(sys.argv[2:]))
"""
TEXTS = ["one", "two", "three", "four", "five", "six", "seven"]
ADDED = ["embedding", "tokens", "truncated", "error"]


def run(*arguments, stop: tuple[int, int] | None = None, script: str | None = None) -> subprocess.CompletedProcess:
    """stop: after how many parts, and by which signal. script: runs instead of the example."""
    command = [sys.executable, EXAMPLES / "embed_corpus.py"]
    if stop is not None:
        command = [sys.executable, "-c", STOPPED, EXAMPLES, *stop]
    elif script is not None:
        command = [sys.executable, "-c", script, EXAMPLES]
    command = list(map(str, [*command, *arguments]))
    return subprocess.run(command, capture_output=True, text=True, timeout=300, preexec_fn=hear_ctrl_c)


def succeed(*arguments) -> dict:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sums(texts: list[str]) -> np.ndarray:
    tokenizer = make_tokenizer(len(TABLE))
    return np.stack([TABLE[tokenizer.encode(text).ids[:LENGTH]].sum(0) for text in texts])


def vectors(table) -> np.ndarray:
    return np.stack(table["embedding"].to_numpy(zero_copy_only=False))


def check_directions(table, texts: list[str]) -> None:
    wanted = sums(texts)
    np.testing.assert_allclose(vectors(table), wanted / np.linalg.norm(wanted, axis=1, keepdims=True), 0, 1e-5)


@pytest.fixture
def texts(tmp_path) -> Path:
    """Seven rows in three files; a part of three has rows of two of them."""
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / "a.txt").write_bytes("\ufeffone\n\n  two\r\nthree\n\n".encode())
    (folder / "b.md").write_text("four")
    (folder / "more" / "c.txt").write_text("\nfive\nsix\n \nseven\n\n")
    (folder / "empty.txt").write_text("")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


@pytest.fixture
def table(tmp_path) -> Path:
    """Ten rows in two files, of three row groups each."""
    rows = pyarrow.table(
        {
            "id": list(range(10)),
            "body": [None if place == 4 else "" if place == 7 else f"text {place}" for place in range(10)],
            "tags": [[{"name": "a", "n": place}] if place % 2 else None for place in range(10)],
        }
    )
    folder = tmp_path / "tables"
    folder.mkdir()
    parquet.write_table(rows.slice(0, 5), folder / "0.parquet", row_group_size=2)
    parquet.write_table(rows.slice(5), folder / "1.parquet", row_group_size=2)
    return folder


def test_lines_of_texts_become_rows(texts, encoder, tmp_path):
    out = tmp_path / "out"
    figures = succeed(texts, "-o", out, "--model", encoder, "--part-rows", 3)
    tokens = sum(len(make_tokenizer(len(TABLE)).encode(text).ids) for text in TEXTS)
    assert (figures["output"], figures["parts"], figures["parts_done_before"]) == (str(out), 3, 0)
    assert (figures["rows"], figures["tokens"], figures["truncated"], figures["errors"]) == (7, tokens, 0, 0)
    assert sorted(path.name for path in out.iterdir()) == ["_corpus.json", *(f"part-0000{n}.parquet" for n in range(3))]
    made = parquet.read_table(out)
    assert made.column_names == ["file", "line", "text", *ADDED]
    assert made["text"].to_pylist() == TEXTS
    assert made["line"].to_pylist() == [1, 3, 4, 1, 2, 3, 5]
    names = ["a.txt"] * 3 + ["b.md"] + ["c.txt"] * 3
    assert [Path(file).name for file in made["file"].to_pylist()] == names
    assert made.schema.field("embedding").type == pyarrow.list_(pyarrow.float32(), WIDTH)
    check_directions(made, made["text"].to_pylist())


@pytest.mark.parametrize("part_rows", [1, 3, 4, 100])
def test_rows_of_parquet_keep_their_columns_and_bad_ones_have_an_error(table, encoder, tmp_path, part_rows):
    out = tmp_path / "out"
    arguments = (table, "-o", out, "--model", encoder, "--column", "body", "--part-rows", part_rows)
    done = run(*arguments)
    assert done.returncode == 0
    assert done.stderr.endswith("nibble: 2 rows without a vector: the column 'error' says why\n")
    assert done.stdout.startswith(f"{out}: 10 rows in {-(-10 // part_rows)} part")
    made, given = parquet.read_table(out), parquet.read_table(table)
    assert made.select(given.column_names).equals(given)
    errors = made["error"].to_pylist()
    assert [place for place, error in enumerate(errors) if error] == [4, 7]
    assert errors[4] == "column 'body' must be text, but it is None"
    good = [place for place, error in enumerate(errors) if not error]
    check_directions(made.take(good), [f"text {place}" for place in good])
    # Whoever looks at the parts again is told again.
    assert run(*arguments).stderr == "nibble: 2 rows without a vector: the column 'error' says why\n"


def test_a_text_that_is_cut_is_told(encoder, tmp_path):
    (tmp_path / "long.txt").write_text("x" * (LENGTH + 1))
    done = run(tmp_path / "long.txt", "-o", tmp_path / "out", "--model", encoder)
    assert done.stderr.endswith("nibble: 1 text longer than the model takes: only the beginning counts\n")
    assert parquet.read_table(tmp_path / "out")["truncated"].to_pylist() == [True]


@pytest.mark.parametrize("kind", ["texts", "table"])
def test_what_was_done_before_a_kill_is_not_done_again(request, kind, encoder, tmp_path):
    out = tmp_path / "out"
    column = () if kind == "texts" else ("--column", "body")
    arguments = (request.getfixturevalue(kind), "-o", out, "--model", encoder, "--part-rows", 2, *column)
    assert run(*arguments, stop=(2, signal.SIGKILL)).returncode == -signal.SIGKILL
    left = sorted(path.name for path in out.iterdir() if path.name.startswith("_part"))
    assert [name.partition(".")[0] for name in left] == ["_part-00002"]
    before = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert len(before) == 2
    # What is there can be read, although not all is.
    assert parquet.read_table(out).num_rows == 4
    assert run(*arguments, stop=(1, signal.SIGKILL)).returncode == -signal.SIGKILL
    figures = succeed(*arguments)
    assert (figures["parts_done_before"], figures["rows"]) == (3, 7 if kind == "texts" else 10)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not list(out.glob("_part-*"))
    whole = tmp_path / "whole"
    succeed(arguments[0], "-o", whole, *arguments[3:])
    assert parquet.read_table(out).equals(parquet.read_table(whole))


def test_ctrl_c_says_what_was_kept(texts, encoder, tmp_path):
    out = tmp_path / "out"
    arguments = (texts, "-o", out, "--model", encoder, "--part-rows", 2)
    done = run(*arguments, stop=(2, signal.SIGINT))
    assert (done.returncode, done.stdout) == (130, "")
    kept = f"2 of 4 parts (4 of 7 rows) in '{out}' are done, and the same command goes on from there"
    assert done.stderr.splitlines() == ["2 of 7 rows done", "4 of 7 rows done", f"nibble: stopped: {kept}"]
    assert not list(out.glob("_part-*"))
    assert succeed(*arguments)["parts_done_before"] == 2


def test_a_failure_says_what_was_kept(table, encoder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    # No file can be renamed to a folder that is not empty.
    (out / "part-00001.parquet" / "in the way").mkdir(parents=True)
    done = run(table, "-o", out, "--model", encoder, "--column", "body", "--part-rows", 4)
    assert done.returncode == 1
    reason = f"'{out.resolve() / 'part-00001.parquet'}' cannot be made: Is a directory"
    kept = f"1 of 3 parts (4 of 10 rows) in '{out}' are done, and the same command goes on from there"
    assert done.stderr.splitlines() == ["4 of 10 rows done", f"nibble: {reason}; {kept}"]


def test_a_part_that_is_not_here_is_one_sentence(texts, encoder, tmp_path):
    out = tmp_path / "out"
    done = run(texts, "-o", out, "--model", encoder, "--part-rows", 3, script=UNSEEN)
    said = f"part 0 was made, but '{out / 'part-00000.parquet'}' is not here: all machines must see the same folder"
    kept = f"0 of 3 parts (0 of 7 rows) in '{out}' are done, and the same command goes on from there"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"nibble: {said}; {kept}\n")


def test_a_file_that_is_damaged_meanwhile_is_one_sentence(table, encoder, tmp_path):
    arguments = (table, "-o", tmp_path / "out", "--model", encoder, "--column", "body", "--part-rows", 5)
    done = run(*arguments, script=DAMAGED)
    told, sentence = done.stderr.splitlines()
    assert (done.returncode, done.stdout, told) == (1, "", "5 of 10 rows done")
    assert sentence.startswith(f"nibble: '{table / '1.parquet'}' cannot be read: Parquet magic bytes not found")
    assert "; 1 of 2 parts (5 of 10 rows) in " in sentence


def test_a_damaged_part_is_made_again(texts, encoder, tmp_path):
    arguments = (texts, "-o", tmp_path / "out", "--model", encoder, "--part-rows", 2)
    succeed(*arguments)
    wanted = parquet.read_table(tmp_path / "out")
    for number, content in enumerate((b"", b"PAR1 is not all")):
        (tmp_path / "out" / f"part-0000{number}.parquet").write_bytes(content)
    parquet.write_table(pyarrow.table({"foreign": [1]}), tmp_path / "out" / "part-00002.parquet")
    assert succeed(*arguments)["parts_done_before"] == 1
    assert parquet.read_table(tmp_path / "out").equals(wanted)


def test_parts_of_another_corpus_are_not_taken(texts, table, encoder, tmp_path):
    out = tmp_path / "out"
    arguments = [texts, "-o", out, "--model", encoder, "--part-rows", 2]
    succeed(*arguments)

    def complaint(*changed) -> str:
        done = run(*changed)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    end = ": give another --output\n"
    assert complaint(*arguments[:-1], 3) == f"nibble: '{out}' holds parts of part-rows 2{end}"
    assert complaint(*arguments[:3], "--model", "wordllama") == f"nibble: '{out}' holds parts of part-rows 2{end}"
    other = [*arguments[:3], "--model", "wordllama", "--part-rows", 2]
    assert complaint(*other) == f"nibble: '{out}' holds parts of model {encoder}{end}"
    with (texts / "b.md").open("a") as file:
        file.write("\nmore")
    assert complaint(*arguments) == f"nibble: '{out}' holds parts of other files, or of what they were{end}"
    (out / "_corpus.json").write_text("[]x")
    assert complaint(*arguments) == f"nibble: '{out / '_corpus.json'}' is damaged{end}"
    assert len(list(out.glob("part-*"))) == 4


def test_the_output_may_be_in_the_input(table, encoder):
    arguments = (table, "-o", table / "embedded", "--model", encoder, "--column", "body")
    assert [succeed(*arguments)["rows"] for _ in range(2)] == [10, 10]


def test_no_rows_are_no_parts(encoder, tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    figures = succeed(tmp_path / "empty.txt", "-o", tmp_path / "out", "--model", encoder)
    assert (figures["parts"], figures["rows"]) == (0, 0)


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ({"body": ["a"], "id": [1]}, [], "has no column 'text' among body, id: --column says which"),
        ({"id": [1]}, ["--column", "id"], "is int64, but it must be text"),
        ({"text": ["a"], "error": ["b"]}, [], "has a column 'error' already"),
        (b"PAR1 is not all", [], "is no Parquet file: "),
    ],
    ids=["missing", "type", "taken", "damaged"],
)
def test_files_that_do_not_fit_are_one_sentence(encoder, tmp_path, columns, options, sentence):
    path = tmp_path / "given.parquet"
    path.write_bytes(columns) if isinstance(columns, bytes) else parquet.write_table(pyarrow.table(columns), path)
    done = run(path, "-o", tmp_path / "out", "--model", encoder, *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert sentence in done.stderr
    assert str(path) in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_row_group_is_decoded_once_for_all_its_parts(table, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    corpus = importlib.import_module("corpus")
    large = table / "large.parquet"
    rows = parquet.read_table(table)
    parquet.write_table(rows, large, row_group_size=7)
    decoded = []
    for name in ("read", "read_row_group", "read_row_groups"):
        plain = getattr(parquet.ParquetFile, name)

        def counting(*arguments, _plain=plain, **options):
            decoded.append(_plain(*arguments, **options))
            return decoded[-1]

        monkeypatch.setattr(parquet.ParquetFile, name, counting)
    reader = corpus.PartReader()
    made = [reader.read(part) for part in corpus.plan([large], 2)]
    assert ([part.num_rows for part in made], sum(one.num_rows for one in decoded)) == ([2] * 5, 10)
    assert pyarrow.concat_tables(made).equals(rows)
    # What was kept is not taken for a file that is another one by now.
    other, last = rows.take(list(range(9, -1, -1))), corpus.Slice(str(large), 8, 10, 2)
    parquet.write_table(other, large, row_group_size=7)
    assert reader.read([last]).equals(other.slice(8))
    parquet.write_table(rows.slice(0, 3), large)
    with pytest.raises(nibble.NibbleError, match="was changed after this run began"):
        reader.read([last])


def test_actors_need_not_find_the_examples(monkeypatch, tmp_path):
    pickle = needs("ray.cloudpickle")
    monkeypatch.syspath_prepend(EXAMPLES)
    corpus = importlib.import_module("corpus")
    pickle.register_pickle_by_value(corpus)
    (tmp_path / "pickled").write_bytes(pickle.dumps([corpus.PartReader, corpus.write_part]))
    script = "import ray.cloudpickle; ray.cloudpickle.load(open('pickled', 'rb'))[0]()"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_files_of_several_kinds_are_refused(texts, table, encoder, tmp_path):
    rest = ("-o", tmp_path / "out", "--model", encoder)
    assert "is Parquet, but" in run(texts, table, *rest).stderr
    parquet.write_table(pyarrow.table({"body": ["a"]}), table / "2.parquet")
    done = run(table, *rest, "--column", "body")
    assert (done.returncode, "has other columns than" in done.stderr) == (2, True)


def test_actors_of_ray_make_the_same_parts_and_go_on_too(texts, encoder, tmp_path):
    needs("ray")
    arguments = ["--model", encoder, "--part-rows", 2]
    succeed(texts, "-o", tmp_path / "here", *arguments)
    spread = [texts, "-o", tmp_path / "spread", *arguments]
    run(*spread, stop=(1, signal.SIGKILL))
    done = run(*spread, "--actors", 2)
    # Ray has lines of its own, and its actors an order of theirs.
    told = [line for line in done.stderr.splitlines() if line.endswith(" rows done")]
    assert (done.returncode, len(told), told[-1]) == (0, 3, "7 of 7 rows done")
    assert done.stdout.startswith(f"{tmp_path / 'spread'}: 7 rows in 4 parts, 1 of them done before; ")
    assert parquet.read_table(tmp_path / "spread").equals(parquet.read_table(tmp_path / "here"))
    done = run(*spread[:2], tmp_path / "none", *arguments, "--actors", 1, "--gpus", 1000)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("nibble: --gpus is 1000, but Ray has found ")
