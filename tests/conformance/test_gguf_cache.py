"""Imports without a place of their own: kept by what they are made from. The exporter is a stand-in here."""

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import nibble
from conformance.gguf_files import TinyModel
from nibble._gguf import _folder, _import

pytestmark = pytest.mark.host
MODEL = TinyModel(layers=1)


@pytest.fixture
def exports(monkeypatch, tmp_path) -> list[dict]:
    """What was exported."""
    done = []

    def make(file, shape, text, options, tell):
        time.sleep(0.1)
        done.append(options)
        return SimpleNamespace(save=lambda path: path.write_bytes(b"program")), {}

    monkeypatch.setenv("NIBBLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_import, "_make", make)
    return done


@pytest.fixture
def file(tmp_path) -> Path:
    return MODEL.write(tmp_path / "tiny.gguf")


def test_a_file_is_imported_once_whatever_it_is_called(exports, file, tmp_path):
    made = nibble.import_gguf(file)
    assert made.folder.parent == tmp_path / "cache" / "gguf"
    assert sorted(os.listdir(made.folder)) == ["generation.json", "model.pte", "tokenizer.json"]
    again = nibble.import_gguf(file.rename(tmp_path / "other.gguf"))
    assert (made.was_there, again.was_there, len(exports)) == (False, True, 1)
    assert (again.folder, again.facts) == (made.folder, made.facts)


def test_another_content_option_or_version_is_another_import(exports, file, tmp_path, monkeypatch):
    folders = [nibble.import_gguf(file).folder, nibble.import_gguf(file, chunk=8).folder]
    folders.append(nibble.import_gguf(TinyModel(layers=2).write(tmp_path / "tiny.gguf")).folder)
    versions = _folder.versions()
    monkeypatch.setattr(_folder, "versions", lambda: {**versions, "importer": "another"})
    folders.append(nibble.import_gguf(file).folder)
    assert len(set(folders)) == len(exports) == 4


def test_what_is_damaged_is_made_again(exports, file):
    program = nibble.import_gguf(file).program
    program.write_bytes(b"prog")
    assert not nibble.import_gguf(file).was_there
    assert program.read_bytes() == b"program"


def test_of_several_at_once_one_makes_it(exports, file):
    made = []
    threads = [threading.Thread(target=lambda: made.append(nibble.import_gguf(file))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.was_there for one in made) == [False, True, True, True]
    assert len(exports) == 1


def test_what_is_there_needs_no_right_to_write(exports, file, monkeypatch):
    nibble.import_gguf(file)

    def refuse(entry):
        raise AssertionError("a lock is a file")

    monkeypatch.setattr(_import, "alone", refuse)
    assert nibble.import_gguf(file).was_there


def test_a_cache_that_cannot_be_written_is_one_sentence(exports, file, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    with pytest.raises(nibble.NibbleError, match=r"cache/gguf' cannot be written: .*; \$NIBBLE_CACHE names another"):
        nibble.import_gguf(file)
