"""examples/embed_corpus.py where there is neither pyarrow nor Ray: what it says, and how it takes files apart. What it
writes is in tests/batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.host
# As if it was not installed, if it is.
WITHOUT_ARROW = """
import sys
sys.modules["pyarrow"] = None
sys.path.insert(0, sys.argv[1])
import embed_corpus
sys.exit(embed_corpus.main(sys.argv[2:]))
"""


@pytest.fixture
def examples(monkeypatch):
    """Only while a test runs: other tests have modules of the same names."""
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    sys.modules.pop("corpus", None)


def run(*arguments, env: dict | None = None) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", WITHOUT_ARROW, EXAMPLES, *arguments]
    environment = {**os.environ, **(env or {})}
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=300)


def test_help_needs_no_gpu():
    done = run("--help", env={"NIBBLE_WGPU_LIBRARY": os.devnull, "NIBBLE_ENGINE": "wgpu"})
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("--output", "--column", "--part-rows", "--actors", "--model", "goes on from there"):
        assert word in done.stdout


def test_without_arrow_it_says_what_to_install(tmp_path):
    done = run(tmp_path, "-o", tmp_path / "out", "--model", "wordllama")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("nibble: this needs the package pyarrow: pip install 'nibble-runtime[ray]' (")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: INPUT, --output/-o\nSee: embed_corpus.py --help"),
        (
            [".", "-o", "out", "--model", "bert"],
            "model must be minilm, wordllama or a folder with model.pte and tokenizer.json, not 'bert'",
        ),
        (
            [".", "-o", "out", "--part-rows", "0"],
            "--part-rows must be at least 1, but is 0\nSee: embed_corpus.py --help",
        ),
        ([".", "-o", "out", "--gpus", "1"], "--address and --gpus are for actors: --actors says how many"),
    ],
    ids=["nothing", "model", "rows", "gpus"],
)
def test_wrong_usage_is_told(arguments, sentence):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (2, f"nibble: {sentence}\n")


def test_files_are_those_of_one_kind_and_none_of_the_output(examples, tmp_path):
    from corpus import find_files

    from nibble._commands.terminal import UsageError

    output = tmp_path / "b" / "out"
    output.mkdir(parents=True)
    for name in ("c.txt", "a.MD", "b/d.txt", "b/out/e.txt", "f.png"):
        (tmp_path / name).write_text("text")
    found = find_files([str(tmp_path)], output)
    assert [path.relative_to(tmp_path.resolve()).as_posix() for path in found] == ["a.MD", "b/d.txt", "c.txt"]
    assert find_files([str(tmp_path / "f.png")], output) == [(tmp_path / "f.png").resolve()]
    (tmp_path / "b" / "g.parquet").touch()
    for inputs, sentence in (
        ([tmp_path], "is Parquet, but"),
        ([tmp_path / "none"], "is not there"),
        ([output / "none"], "is not there"),
        ([output], "ends in .txt, .md or .parquet"),
    ):
        with pytest.raises(UsageError, match=sentence):
            find_files(list(map(str, inputs)), output)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 100])
def test_parts_have_all_lines_once_and_no_more_than_so_many(examples, tmp_path, most):
    from corpus import plan, text_of

    contents = [b"\xef\xbb\xbfone\n\n two\r\nthree\n\n\n", b"", b"four", b"\n\nfive\nsix\n \nse\xffven\n\n"]
    files = []
    for number, content in enumerate(contents):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_bytes(content)
    parts = plan(files, most)
    counts = [sum(piece.rows for piece in part) for part in parts]
    assert counts == [most] * (7 // most) + [7 % most] * (7 % most > 0)
    seen = []
    for piece in (piece for part in parts for piece in part):
        lines = Path(piece.file).read_bytes()[piece.start : piece.stop].split(b"\n")
        rows = [(piece.line + place, text_of(line)) for place, line in enumerate(lines) if text_of(line)]
        assert len(rows) == piece.rows > 0
        seen += rows
    texts = ["one", "two", "three", "four", "five", "six", "se\ufffdven"]
    assert seen == list(zip([1, 3, 4, 1, 3, 4, 6], texts, strict=True))
