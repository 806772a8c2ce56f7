"""nibble embed, nibble search: results, exit codes, and what they print where."""

import json
import os
import pty
import signal
import subprocess
import time

import numpy as np
import pytest

from conformance.command import COMMAND, fail, hear_ctrl_c, nibble, succeed
from conformance.command import pytestmark as needs_command
from support.sum_encoder import make_encoder

MODEL = ("--model", "wordllama")

pytestmark = [needs_command, pytest.mark.host]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Saturn has rings.\n\n  A clay pot keeps houseplants moist.  \r\nWater the tomatoes.\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def made():
    """Makes the programs, so that no test has to say it."""
    from nibble._encode.kept import folder_of

    for precision in ("4-bit", "fp32"):
        folder_of("wordllama", precision)


def test_embed_writes_a_vector_for_each_line(text, tmp_path, device_name):
    out = tmp_path / "vectors.npy"
    said = succeed("embed", text, "--output", out, *MODEL)
    assert said.startswith(f"{out}: 3 lines of 256 numbers, ")
    assert "ms per line on " in said
    vectors = np.load(out)
    assert (vectors.dtype, vectors.shape) == (np.float32, (3, 256))
    figures = json.loads(succeed("embed", text, text, "-o", out, *MODEL, "--json"))
    assert (figures["lines"], figures["width"], figures["truncated"]) == (6, 256, 0)
    assert figures["device"] == device_name
    np.testing.assert_allclose(np.load(out), np.concatenate([vectors, vectors]), 0, 1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "vectors.npy"]


def test_embed_reads_json_lines_and_standard_input(text, tmp_path):
    out, rows = tmp_path / "vectors.npy", tmp_path / "rows.jsonl"
    rows.write_text('"Saturn has rings."\n{"id": 1, "text": "A clay pot keeps houseplants moist."}\n')
    with text.open() as given:
        command = [COMMAND, "embed", rows, "-", "--output", out, *MODEL]
        subprocess.run(command, stdin=given, check=True, capture_output=True)
    vectors = np.load(out)
    assert vectors.shape == (5, 256)
    np.testing.assert_allclose(vectors[:2], vectors[2:4], 0, 1e-6)


def test_embed_of_no_lines_is_empty(tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    succeed("embed", tmp_path / "empty.txt", "--output", tmp_path / "out.npy", *MODEL)
    assert np.load(tmp_path / "out.npy").shape == (0, 256)


def test_embed_tells_of_lines_that_are_too_long(tmp_path):
    (tmp_path / "long.txt").write_text("word " * 600)
    done = nibble("embed", tmp_path / "long.txt", "--output", tmp_path / "out.npy", *MODEL)
    assert done.returncode == 0
    assert done.stderr == "nibble: 1 line longer than 512 tokens, of which only the beginning counts\n"


def test_embed_leaves_vectors_as_they_are_if_told_so(text, tmp_path):
    model, out = make_encoder(tmp_path / "own"), tmp_path / "out.npy"
    lengths = []
    for flag in ("--no-normalize", "--normalize"):
        figures = json.loads(succeed("embed", text, "-o", out, "--model", model, flag, "--json"))
        assert figures["normalized"] is (flag == "--normalize")
        lengths.append(np.linalg.norm(np.load(out), axis=1))
    assert (lengths[0] > 1.5).all()
    np.testing.assert_allclose(lengths[1], 1, 0, 1e-6)


def test_search_shows_scores_of_both_precisions_and_places(text, tmp_path):
    said = succeed("search", "How do I water my plants?", text, *MODEL, "--top", "2").splitlines()
    assert said[1].split() == ["4-bit", "score", "16-bit", "score", "place", "line"]
    assert {said[2].split()[4], said[3].split()[4]} == {"3", "4"}
    other = tmp_path / "other.txt"
    other.write_text("\nHow do I water my plants?\n")
    said = succeed("search", "How do I water my plants?", text, other, *MODEL, "--no-full").splitlines()
    assert said[1].split() == ["4-bit", "score", "place", "line"]
    assert said[2].split()[:3] == ["1", "1.000", f"{other}:2"]
    assert "Spearman" not in "".join(said)


def test_search_as_json_has_all_lines(text):
    report = json.loads(succeed("search", "How do I water my plants?", text, *MODEL, "--top", "1", "--json"))
    assert [line["rank"] for line in report["lines"]] == [1, 2, 3]
    assert sorted(line["number"] for line in report["lines"]) == [1, 3, 4]
    assert all(line["file"] == str(text) for line in report["lines"])
    assert all(abs(line["score"] - line["full_score"]) < 0.05 for line in report["lines"])


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    (tmp_path / "odd.txt").write_text("red \x1b[31malert\n")
    assert "\x1b" not in succeed("search", "alarm", tmp_path / "odd.txt", *MODEL)


def test_options_of_load_reach_the_program(text, tmp_path):
    for command in (["embed", text, "-o", tmp_path / "vectors.npy"], ["search", "a question", text]):
        assert "nodes, but the option max_nodes allows 1" in fail(*command, *MODEL, "--max-nodes", "1")
    said = fail("embed", text, "-o", tmp_path / "vectors.npy", *MODEL, "--max-nodes", "-1", code=2)
    assert "--max-nodes must be a whole number from 0 on, not -1" in said


@pytest.mark.parametrize("command", ["embed", "search"])
def test_help_needs_no_gpu(command):
    assert "--model" in succeed(command, "--help", env={"NIBBLE_WGPU_LIBRARY": os.devnull, "NIBBLE_ENGINE": "wgpu"})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["embed"], "the following arguments are required: FILE, --output/-o"),
        (["embed", "TEXT", "--output", "out.npy", "--precision", "2-bit"], "--precision: invalid choice: '2-bit'"),
        (["search", "question"], "the following arguments are required: FILE"),
        (["search", "question", "TEXT", "--top", "0"], "--top must be at least 1, but is 0"),
        (["search", "question", "TEXT", "--batch", "x"], "--batch must be at least 1, but is x"),
    ],
)
def test_wrong_arguments_are_code_2_and_point_to_the_help(arguments, sentence, text):
    said = fail(*(text if argument == "TEXT" else argument for argument in arguments), code=2)
    assert sentence in said
    assert f"See: nibble {arguments[0]} --help" in said


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["search", "question", "/nonexistent"], 2, "'/nonexistent' cannot be read: No such file or directory"),
        (["search", " ", "TEXT"], 2, "the question holds no words"),
        (["search", "word " * 600, "TEXT", *MODEL], 2, "the question is longer than 512 tokens"),
        (["search", "question", os.devnull], 2, f"there are no lines in '{os.devnull}'"),
        (["search", "question", "TEXT", "--model", "bert"], 2, "model must be minilm, wordllama or a folder"),
        (["search", "question", "TEXT", *MODEL, "--batch", "99"], 2, "batch must be a whole number from 1 to 32"),
        (["search", "question", "TEXT", *MODEL, "--device", "abacus"], 1, 'no device matches "abacus"'),
        (["embed", "TEXT", "--output", "/nonexistent/out.npy"], 2, "'/nonexistent/out.npy' cannot be written"),
        (["embed", "TEXT", "--output", os.devnull], 2, "no regular file"),
        (["embed", "BAD", "--output", "out.npy"], 2, "bad.jsonl:2 must be a string, or an object with a string"),
    ],
)
def test_what_goes_wrong_is_one_sentence(arguments, code, sentence, text, tmp_path):
    (tmp_path / "bad.jsonl").write_text('"good"\n{"title": "bad"}\n')
    files = {"TEXT": text, "BAD": tmp_path / "bad.jsonl"}
    done = nibble(*(files.get(argument, argument) for argument in arguments))
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("nibble: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_result_that_cannot_be_written_is_an_error(text):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, "search", "question", text, *MODEL], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "nibble: cannot write the result: No space left on device\n")


def test_ctrl_c_is_code_130_and_leaves_no_file(tmp_path):
    """In a terminal, which is told how far the work is."""
    long, out = tmp_path / "long.txt", tmp_path / "out.npy"
    long.write_text(("word " * 100 + "\n") * 40_000)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "embed", long, "--output", out, *MODEL],
        stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    os.close(theirs)
    said, deadline = b"", time.monotonic() + 120
    while b"of 40000" not in said and time.monotonic() < deadline:
        said += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert b"Traceback" not in said + os.read(ours, 65536)
    os.close(ours)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.txt"]
