"""nibble.Encoder: vectors, batches, odd texts, and the cache of programs."""

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import nibble
from conformance import minilm_cases
from nibble._encode import kept
from nibble._encode.models import KNOWN
from nibble._encoder import plan_batches
from nibble.ray import Embedder
from support.sum_encoder import TABLE, make_encoder

WORDLLAMA = KNOWN["wordllama"]
LINES = minilm_cases.text()


@pytest.fixture(scope="module")
def encoder():
    with nibble.Encoder("wordllama") as made:
        yield made


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return load_file(WORDLLAMA.folder / WORDLLAMA.weights)["embedding.weight"].astype(np.float32)


def directions(encoder, table: np.ndarray, lines: list[str]) -> np.ndarray:
    """The same by NumPy, line by line."""
    ids = [encoder._tokenizer.encode(line, add_special_tokens=False).ids for line in lines]
    means = np.stack([table[one].mean(0) for one in ids])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def test_every_line_has_the_direction_of_its_tokens_mean(encoder, table):
    vectors = encoder.encode(LINES)
    assert (vectors.dtype, vectors.shape) == (np.float32, (len(LINES), encoder.width))
    stored = nibble.dequantize_q4(*nibble.quantize_q4(table, 32))
    np.testing.assert_allclose(vectors, directions(encoder, stored, LINES), 0, 1e-5)
    assert (vectors * directions(encoder, table, LINES)).sum(1).min() > 0.97


@pytest.mark.host
@pytest.mark.slow
def test_fp32_is_what_was_published(table):
    with nibble.Encoder("wordllama", precision="fp32") as encoder:
        np.testing.assert_allclose(encoder.encode(LINES[:40]), directions(encoder, table, LINES[:40]), 0, 1e-5)


def test_batches_give_what_single_texts_give_in_the_same_order(encoder):
    texts = [LINES[i % 50] * (1 + i % 3) for i in range(0, 150, 2)]
    with nibble.Encoder("wordllama", device=encoder.device, batch=1) as single:
        np.testing.assert_allclose(encoder.encode(texts), single.encode(texts), 0, 1e-5)
    np.testing.assert_array_equal(encoder.encode(texts[::-1]), encoder.encode(texts)[::-1])


def test_no_texts_and_empty_texts_have_a_result(encoder):
    assert encoder.encode([]).shape == (0, encoder.width)
    vectors = encoder.encode(["", "hello", ""])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [0, 1, 0], 0, 1e-6)


@pytest.mark.parametrize(
    ("texts", "error", "sentence"),
    [
        ("one text", TypeError, "texts must be a list of str, not one str; for one text write [text]."),
        (7, TypeError, "texts must be a list of str, not int."),
        (["a", None], TypeError, "texts[1] must be a str, not NoneType."),
        (["a", "b", "\ud800"], ValueError, "texts[2] has half of a character, which is no Unicode text."),
    ],
    ids=["str", "int", "None", "surrogate"],
)
def test_what_is_no_text_is_named(encoder, texts, error, sentence):
    with pytest.raises(error) as raised:
        encoder.encode(texts)
    assert str(raised.value) == sentence


def test_a_text_that_is_too_long_is_told(encoder):
    longest = "word " * (encoder.max_length * 2)
    with pytest.warns(UserWarning, match=r"^2 of 3 texts are longer than 512 tokens, and only the beginning counts$"):
        encoder.encode([longest, "short", longest])
    made = encoder.embed(["short", longest])
    assert made.truncated.tolist() == [False, True]
    assert made.tokens[1] == encoder.max_length
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode(["short"])


def test_search_gives_the_closest_first(encoder):
    texts = ["Saturn has rings.", "", "A clay pot keeps houseplants moist.", "Water the tomatoes."]
    found = encoder.search("How do I water my plants?", texts)
    assert sorted(index for index, _ in found) == [0, 1, 2, 3]
    assert found[0][0] in (2, 3)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert encoder.search("How do I water my plants?", texts, top=1) == found[:1]


def test_progress_is_told_to_the_end(encoder):
    told = []
    encoder.encode([*LINES, ""], progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(LINES) + 1, len(LINES) + 1)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_closed_encoder_is_an_error():
    encoder = nibble.Encoder("wordllama")
    encoder.close()
    with pytest.raises(nibble.NibbleError, match="closed"):
        encoder.encode(["text"])


@pytest.mark.host
def test_texts_of_like_length_share_a_batch():
    lengths = np.array([3, 250, 0, 4, 251, 5, 240, 0, 60])
    batches = plan_batches(lengths, 2)
    assert [rows.tolist() for rows in batches] == [[4, 1], [6], [8], [5, 3], [0]]
    rng = np.random.default_rng(1)
    for most in (1, 7, 32):
        lengths = rng.integers(0, 257, 500)
        batches = plan_batches(lengths, most)
        assert sorted(np.concatenate(batches)) == np.flatnonzero(lengths).tolist()
        assert max(map(len, batches)) <= most
        padded = sum(len(rows) * lengths[rows].max() for rows in batches)
        assert padded <= 1.25 * lengths.sum() + 10 * len(lengths)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (
            ["bert"],
            {},
            "model must be minilm, wordllama or a folder with model.pte and tokenizer.json, not 'bert'.",
        ),
        (["wordllama"], {"precision": "2-bit"}, "precision must be '4-bit' or 'fp32', not '2-bit'."),
        (["wordllama"], {"batch": 33}, "batch must be a whole number from 1 to 32, the program's largest, not 33."),
        (["."], {"precision": "fp32"}, "precision is 'fp32', but '.' is a program, which has its own."),
    ],
    ids=["model", "precision", "batch", "folder"],
)
def test_wrong_arguments_are_one_sentence(arguments, options, sentence):
    with pytest.raises(ValueError, match=r"\.$") as raised:
        nibble.Encoder(*arguments, **options)
    assert str(raised.value) == sentence


@pytest.mark.parametrize("made", [nibble.Encoder, Embedder])
def test_options_of_load_reach_the_program(made):
    with pytest.raises(nibble.NibbleError, match="nodes, but the option max_nodes allows 1"):
        made("wordllama", max_nodes=1)


def test_an_unknown_device_is_named_before_anything_is_made(monkeypatch, tmp_path):
    monkeypatch.setenv("NIBBLE_CACHE", str(tmp_path))
    with pytest.raises(nibble.NibbleError, match="abacus"):
        nibble.Encoder("wordllama", device="abacus")
    assert not list(tmp_path.iterdir())


# A folder.


@pytest.fixture
def folder(tmp_path) -> Path:
    return Path(shutil.copytree(kept.folder_of("wordllama", "4-bit"), tmp_path / "own"))


def test_a_folder_of_a_program_and_a_tokenizer_is_an_encoder(encoder, folder):
    with nibble.Encoder(folder, device=encoder.device) as own:
        np.testing.assert_allclose(own.encode(LINES[:5]), encoder.encode(LINES[:5]), 0, 1e-6)
    # Without the facts, special tokens are added.
    (folder / "encoder.json").unlink()
    with nibble.Encoder(str(folder), device=encoder.device) as own:
        assert own.embed(["hello"]).tokens[0] == encoder.embed(["hello"]).tokens[0] + 1


def test_vectors_are_one_long_unless_told_otherwise(tmp_path):
    folder, texts = make_encoder(tmp_path / "own"), ["hello", "a longer text", ""]
    with nibble.Encoder(folder, normalize=False) as plain, nibble.Encoder(folder, device=plain.device) as unit:
        sums = plain.encode(texts)
        ids = [plain._tokenizer.encode(text).ids for text in texts]
        np.testing.assert_allclose(sums, [TABLE[one].sum(0) for one in ids], 0, 1e-5)
        lengths = np.linalg.norm(sums[:2], axis=1, keepdims=True)
        np.testing.assert_allclose(unit.encode(texts)[:2], sums[:2] / lengths, 0, 1e-6)
        assert plain.search("hello", texts)[0] == (0, pytest.approx(1))
        assert [index for index, _ in plain.search("hello", texts)] == [i for i, _ in unit.search("hello", texts)]


@pytest.mark.slow
def test_a_model_with_a_name_gives_means_if_vectors_shall_not_be_one_long(encoder, table):
    with nibble.Encoder("wordllama", device=encoder.device, precision="fp32", normalize=False) as means:
        ids = [means._tokenizer.encode(line, add_special_tokens=False).ids for line in LINES[:9]]
        np.testing.assert_allclose(means.encode(LINES[:9]), [table[one].mean(0) for one in ids], 0, 1e-5)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("tokenizer.json", None, "tokenizer.json' cannot be read: No such file or directory"),
        ("tokenizer.json", b"{}", "tokenizer.json' is not a tokenizer: "),
        ("encoder.json", b"[", "encoder.json' is not JSON: "),
        ("encoder.json", b"[]", "encoder.json' must be an object whose 'add_special_tokens' is true or false"),
        ("model.pte", None, "model.pte' cannot be opened: No such file or directory"),
    ],
)
def test_a_folder_that_is_no_encoder_is_named(folder, file, content, sentence):
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(nibble.NibbleError) as raised:
        nibble.Encoder(folder)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_program_of_another_form_is_named(folder, program):
    shutil.copyfile(program("q4_mean").path, folder / "model.pte")
    with pytest.raises(nibble.NibbleError, match="but an encoder goes from int64"):
        nibble.Encoder(folder)


# The cache. What is made here is a copy: exporting takes long.

COPIES = """
import pathlib, shutil, sys, time
from nibble._encode import kept

source, log = map(pathlib.Path, sys.argv[1:])

def copy(name, precision, result, path):
    with log.open("a") as file:
        file.write("made ")
    time.sleep(1)
    shutil.copyfile(source, path)

kept._export = copy
print(kept.folder_of("wordllama", "4-bit"))
"""


@pytest.fixture
def copies(monkeypatch, tmp_path) -> list[str]:
    """A cache of its own, which notes what it makes."""
    source = kept.folder_of("wordllama", "4-bit") / "model.pte"
    made = []

    def copy(name: str, precision: str, result: str, path: Path) -> None:
        made.append(name)
        shutil.copyfile(source, path)

    monkeypatch.setenv("NIBBLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "_export", copy)
    return made


@pytest.mark.host
def test_a_change_in_any_module_that_makes_programs_makes_them_again(monkeypatch):
    read, digest = set(), kept._digest

    def note(path: Path) -> str:
        read.add(path.name)
        return digest(path)

    monkeypatch.setattr(kept, "_digest", note)
    kept._key("wordllama", "4-bit")
    assert read >= {"wordllama.py", "program.py", "make.py", "models.py", "_export.py", "_quantize.py"}


@pytest.mark.host
def test_a_program_is_made_once(copies, capsys):
    folder = kept.folder_of("wordllama", "4-bit")
    assert kept.folder_of("wordllama", "4-bit") == folder
    assert copies == ["wordllama"]
    assert "making the 4-bit program of wordllama: once" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["encoder.json", "model.pte", "tokenizer.json"]


@pytest.mark.host
@pytest.mark.parametrize("file", ["model.pte", "tokenizer.json", "encoder.json"])
@pytest.mark.parametrize(
    "damage", [lambda file: file.write_bytes(file.read_bytes()[:-1]), Path.unlink], ids=["cut", "gone"]
)
def test_a_damaged_entry_is_made_again(copies, capsys, file, damage):
    folder = kept.folder_of("wordllama", "4-bit")
    damage(folder / file)
    assert kept.folder_of("wordllama", "4-bit") == folder
    assert "is damaged and is made again" in capsys.readouterr().err
    assert len(copies) == 2
    assert kept._is_whole(folder)


@pytest.mark.host
def test_an_export_that_fails_leaves_nothing(copies, monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "_export", fail_half_way)
    with pytest.raises(nibble.NibbleError, match="half way"):
        kept.folder_of("wordllama", "4-bit")
    assert [path.suffix for path in (tmp_path / "cache" / "encoders").iterdir()] == [".lock"]


def fail_half_way(_name: str, _precision: str, _result: str, path: Path) -> None:
    path.write_bytes(b"half")
    raise nibble.NibbleError("half way", "io")


@pytest.mark.host
def test_two_processes_make_it_once(monkeypatch, tmp_path):
    source, log = kept.folder_of("wordllama", "4-bit") / "model.pte", tmp_path / "log"
    monkeypatch.setenv("NIBBLE_CACHE", str(tmp_path / "cache"))
    command = [sys.executable, "-c", COPIES, str(source), str(log)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert said[0][0] == said[1][0]
    assert log.read_text() == "made "


@pytest.mark.host
def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NIBBLE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(
        nibble.NibbleError, match=r"cannot be written: Not a directory; \$NIBBLE_CACHE names another folder"
    ):
        kept.folder_of("wordllama", "4-bit")


@pytest.mark.host
def test_a_missing_package_is_named(copies, monkeypatch):
    monkeypatch.setattr(kept, "_version", lambda package: None if package == "torch" else "1")
    with pytest.raises(nibble.NibbleError, match=r"packages that are not installed: torch$"):
        kept.folder_of("wordllama", "4-bit")


@pytest.mark.host
def test_the_exporters_failure_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(nibble.NibbleError, match=r"^making the program of sundial failed: KeyError: 'sundial'$"):
        kept._export("sundial", "4-bit", "mean", tmp_path / "model.pte")


# MiniLM.


@pytest.fixture
def minilm(program, tmp_path):
    """Of the program that test_minilm.py has."""
    shutil.copyfile(program("minilm").path, tmp_path / "model.pte")
    (tmp_path / "tokenizer.json").write_text(KNOWN["minilm"].tokenizer_text())
    with nibble.Encoder(tmp_path) as made:
        yield made


@pytest.mark.slow
def test_minilm_gives_what_torch_gives_line_by_line(minilm):
    import torch

    vectors = minilm.encode(LINES[::4])
    for line, vector in zip(LINES[::4], vectors, strict=True):
        with torch.no_grad():
            alone, full = (
                model(*minilm_cases.tokenize([line])).numpy()[0]
                for model in (minilm_cases.quantized_eager(), minilm_cases.full_model())
            )
        np.testing.assert_allclose(vector, alone, 0, 1e-4)
        assert vector @ full > 0.8


@pytest.mark.slow
def test_minilm_has_a_vector_for_the_empty_text(minilm):
    made = minilm.embed(["", "word " * 300])
    assert made.tokens.tolist() == [2, 256]
    assert made.truncated.tolist() == [False, True]
    np.testing.assert_allclose(np.linalg.norm(made.vectors, axis=1), 1, 0, 1e-5)


@pytest.mark.slow
def test_minilm_by_its_name(minilm):
    with nibble.Encoder() as encoder:
        assert (encoder.width, encoder.max_length) == (384, 256)
        np.testing.assert_allclose(encoder.encode(LINES[:6]), minilm.encode(LINES[:6]), 0, 1e-6)
    facts = json.loads((kept.folder_of("minilm", "4-bit") / "encoder.json").read_text())
    assert facts["add_special_tokens"] is True
