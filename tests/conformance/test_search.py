"""The main job: examples/search.py, as ./run calls it."""

import json
import subprocess
from pathlib import Path

import pytest

from conformance.test_plugin import python

SEARCH = Path(__file__).resolve().parents[2] / "examples" / "search.py"
RUN = """
import runpy, sys
sys.path.insert(0, sys.argv[1].rsplit("/", 1)[0])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def search(*arguments) -> subprocess.CompletedProcess:
    return python(RUN, SEARCH, *arguments)


def test_ranks_the_lines_by_meaning(device_name):
    done = search("astronomy with a telescope", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["device"] == device_name
    assert "telescope" in report["lines"][0]["line"]
    assert [line["rank"] for line in report["lines"]] == list(range(1, len(report["lines"]) + 1))
    # Four bits cost little: the rankings are nearly the same, and so are the scores.
    assert report["spearman"] > 0.95
    assert all(abs(line["score"] - line["full_score"]) < 0.05 for line in report["lines"])


def test_shows_a_table():
    done = search()
    assert done.returncode == 0, done.stderr
    assert "ms per line" in done.stdout
    assert "A clay pot with a wick" in done.stdout


def test_odd_lines_are_ranked_too(tmp_path):
    text = tmp_path / "odd.txt"
    text.write_bytes(b"[bold]brackets[/]\n\n   \n\xff\xfe\n" + b"word " * 2000 + b"\n")
    done = search("a greeting", text, "--json")
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout)["lines"]
    assert len(lines) == 3
    assert [line["tokens"] for line in lines if line["clipped"]] == [512]
    done = search("a greeting", text)
    assert "[bold]brackets[/]" in done.stdout
    assert "1 line longer than 512 tokens" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["", "--json"], 2, "the question holds no words"),
        (["question", "/nonexistent"], 2, "'/nonexistent' cannot be read: No such file or directory"),
        (["question", "--top", "0"], 2, "--top must be at least 1"),
        (["question", "--device", "abacus"], 1, 'no device matches "abacus"'),
    ],
)
def test_wrong_use_is_one_sentence(arguments, code, sentence):
    done = search(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
