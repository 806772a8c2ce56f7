"""Text generation with files and settings that lie, and places that cannot be written."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import nibble
from conformance.programs import IS_FULL
from support.scripted_model import Script

NEVER = []
# Every day, so many bytes of a file from one that is tried to the next.
STEP = 1 if IS_FULL else 5


@pytest.fixture
def folder(tmp_path):
    return Script().make(tmp_path / "model")


@pytest.fixture
def model(folder):
    with nibble.LanguageModel(folder) as loaded:
        yield loaded


def refused(call) -> nibble.NibbleError:
    with pytest.raises(nibble.NibbleError) as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000
    return error.value


# Files.

FACTS = {
    "nothing": b"",
    "not_utf8": b"\xff\xfe{}",
    "deep": b"[" * 100_000,
    "list": b"[]",
    "no_stop_ids": b"{}",
    "stop_ids_of_words": b'{"stop_ids": ["a"]}',
    "stop_ids_of_truth": b'{"stop_ids": [true]}',
    "stop_ids_below_zero": b'{"stop_ids": [-1]}',
    "stop_ids_too_large": b'{"stop_ids": [4294967296]}',
    "stop_ids_of_fractions": b'{"stop_ids": [1.5]}',
    "bos_in_words": b'{"stop_ids": [], "add_bos": true, "bos_id": "x"}',
    "add_bos_in_words": b'{"stop_ids": [], "add_bos": "yes", "bos_id": 1}',
    "template_list": b'{"stop_ids": [], "chat_template": [{"name": "default"}]}',
    "template_broken": b'{"stop_ids": [], "chat_template": "{% if"}',
    "name_of_numbers": b'{"stop_ids": [], "name": 7}',
    "program_elsewhere": b'{"stop_ids": [], "program": "../../other.pte"}',
    "program_missing": b'{"stop_ids": [], "program": "other.pte"}',
    "program_number": b'{"stop_ids": [], "program": 1}',
    "other_format": b'{"stop_ids": [], "format": 2}',
    "eos_in_words": b'{"stop_ids": [], "eos_id": "x"}',
    "program_nothing": b'{"stop_ids": [], "program": ".."}',
}


@pytest.mark.host
@pytest.mark.parametrize("name", FACTS)
def test_facts_that_lie_are_one_sentence(folder, name):
    (folder / "generation.json").write_bytes(FACTS[name])
    assert refused(lambda: nibble.LanguageModel(folder)).code in ("invalid_program", "io")


@pytest.mark.host
def test_facts_of_another_program_are_refused(folder):
    (folder / "other.pte").write_bytes((folder / "model.pte").read_bytes())
    facts = json.loads((folder / "generation.json").read_text())
    (folder / "generation.json").write_text(json.dumps(facts | {"program": "other.pte"}))
    error = refused(lambda: nibble.LanguageModel(folder / "model.pte"))
    assert "belongs to 'other.pte' and not to 'model.pte'" in str(error)
    nibble.LanguageModel(folder / "other.pte").close()


@pytest.mark.host
@pytest.mark.parametrize(("facts", "name"), [({}, "<|endoftext|>"), ({"eos_id": 260}, "<|im_end|>")])
def test_templates_know_the_end_that_the_facts_name(tmp_path, facts, name):
    template = "{{ messages[0].content + eos_token }}"
    folder = Script().make(tmp_path / "model", chat_template=template, stop_ids=[261, 260], **facts)
    with nibble.LanguageModel(folder) as model:
        assert model.tokens_of("a") == model.tokenizer.encode(f"a{name}")


@pytest.mark.host
def test_a_begin_without_a_token_adds_none(folder):
    (folder / "generation.json").write_text('{"stop_ids": [], "add_bos": true, "bos_id": null}')
    with nibble.LanguageModel(folder) as model:
        assert model.tokens_of("a", raw=True) == model.tokenizer.encode("a")


def changed(text: str, **members) -> str:
    return json.dumps(json.loads(text) | members)


TOKENIZERS = {
    "nothing": lambda text: "",
    "half": lambda text: text[: len(text) // 2],
    "other_json": lambda text: "{}",
    "deep": lambda text: "[" * 100_000,
    "no_decoder": lambda text: changed(text, decoder=None),
    "other_decoder": lambda text: changed(text, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}),
    "decoder_of_words": lambda text: changed(text, decoder="ByteLevel"),
    "no_model": lambda text: changed(text, model=None),
    "pattern_that_is_none": lambda text: changed(
        text,
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False},
    ),
}


@pytest.mark.host
@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizers_that_lie_are_one_sentence(folder, name):
    path = folder / "tokenizer.json"
    path.write_text(TOKENIZERS[name](path.read_text()))
    assert "tokenizer.json" in str(refused(lambda: nibble.LanguageModel(folder)))


@pytest.mark.host
def test_a_tokenizer_with_more_tokens_than_the_model_names_the_one_that_is_not_there(folder):
    path = folder / "tokenizer.json"
    config = json.loads(path.read_text())
    special = dict(config["added_tokens"][0], id=5000, content="<|far|>")
    path.write_text(json.dumps(config | {"added_tokens": [*config["added_tokens"], special]}))
    with nibble.LanguageModel(folder) as model:
        sentence = str(refused(lambda: model.generate("<|far|>", raw=True)))
        assert "but the vocabulary has" in sentence


TEMPLATES = {
    "power": "{{ 9 ** 9 ** 9 ** 9 }}",
    "long": "{{ 'a' * 10000000000 }}",
    "long_list": "{{ ([1] * 10000000000) | length }}",
    "many": "{% for i in range(100000000) %}x{% endfor %}",
    "itself": "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    "inside": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "import": "{% import 'os' as os %}{{ os.name }}",
    "include": "{% include '/etc/passwd' %}",
    "half": "{{ '\\ud800' }}",
    "format": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "change": "{{ messages.append(1) }}",
    "unknown_filter": "{{ messages | no_such_filter }}",
}


@pytest.mark.host
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_that_mean_harm_are_one_sentence(tmp_path, name):
    folder = Script().make(tmp_path / "model", chat_template=TEMPLATES[name])

    def use() -> None:
        with nibble.LanguageModel(folder) as model:
            model.generate("hello")

    assert "the chat template" in str(refused(use))


# Settings.

SETTINGS = [
    {"stop": 5},
    {"stop": [1]},
    {"stop": b"x"},
    {"stop": {"a": 1}},
    {"stop": ["\ud800"]},
    {"stop": [""]},
    {"stop_ids": 5},
    {"stop_ids": "12"},
    {"stop_ids": [1.5]},
    {"stop_ids": [None]},
    {"stop_ids": [1 << 40]},
    {"temperature": "0.7"},
    {"temperature": True},
    {"temperature": 10**400},
    {"temperature": [1]},
    {"temperature": float("inf")},
    {"top_k": "9"},
    {"top_k": 10**30},
    {"top_k": np.array([1, 2])},
    {"max_tokens": 1e3},
    {"max_tokens": -(1 << 70)},
    {"seed": 1 << 64},
    {"seed": 1.0},
    {"logit_bias": [1, 2]},
    {"logit_bias": {"1": 2}},
    {"logit_bias": {1: "x"}},
    {"logit_bias": {1: float("nan")}},
    {"logit_bias": {-1: 1}},
    {"top_logprobs": -1},
    {"system": 3},
    {"system": b"x"},
    {"json_schema": 3},
    {"json_schema": "[" * 100_000},
    {"json_schema": {"enum": [object()]}},
    {"json_schema": {"type": "no such type"}},
    {"regex": 3},
    {"regex": "(" * 1000},
    {"grammar": "start: no_such_rule"},
    {"grammar": b"x"},
]


@pytest.mark.host
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: f"{settings}"[:40])
def test_settings_of_other_kinds_are_one_sentence_and_change_nothing(model, settings):
    refused(lambda: model.generate("hello" if "system" in settings else [1], **settings))
    assert len(list(model.generate([1], max_tokens=2, stop_ids=NEVER))) == 2


@pytest.mark.host
@pytest.mark.parametrize(
    "prompt",
    [None, 5, 1.5, b"bytes", {"role": "user"}, [b"x"], ["x"], [[1]], [None], [True], [1 << 63], [1, "x"], "\ud800",
     [{"role": "user", "content": 5}], [{"role": 1}], [{"role": "user", "content": "\udfff"}], np.ones((2, 2), int),
     np.array([2**63], np.uint64)],
    ids=repr,
)  # fmt: skip
def test_prompts_of_other_kinds_are_one_sentence(model, prompt):
    refused(lambda: model.generate(prompt))


@pytest.mark.host
def test_numbers_of_numpy_are_numbers(model):
    generation = model.generate(
        np.array([1, 2], np.int32),
        temperature=np.float32(0.5),
        top_k=np.int64(3),
        max_tokens=np.uint8(2),
        seed=np.int64(5),
        stop_ids=np.array([260]),
        logit_bias={np.int64(1): np.float64(0.5)},
    )
    assert len(list(generation)) == 2


@pytest.mark.host
@pytest.mark.parametrize("count", [-1, 1.5, "1", None, 1 << 70, True])
def test_a_rewind_to_what_is_no_count_is_one_sentence(model, count):
    with model.session() as session:
        refused(lambda: session.rewind(count))


# Saved sessions.


@pytest.mark.host
@pytest.mark.parametrize("place", ["/dev/full", "/dev/null", "/proc/x", "nowhere/x", ".", "", "a\0b"])
def test_saving_to_a_place_that_cannot_be_written_is_one_sentence(model, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    was = os.stat(place).st_mode if place.startswith("/dev") else None
    with model.session() as session:
        session.generate([1, 2, 3], max_tokens=1).run()
        assert refused(lambda: session.save(place)).code == "io"
        assert session.tokens == [1, 2, 3]
    assert was is None or os.stat(place).st_mode == was
    assert sorted(os.listdir(tmp_path)) == ["model", "model.pte"]


FULL = """
import resource, sys, nibble
folder, out = sys.argv[1:]
with nibble.LanguageModel(folder) as model, model.session() as session:
    session.generate([1, 2, 3], max_tokens=1).run()
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))
    try:
        session.save(out)
    except nibble.NibbleError as error:
        print(error.code, error)
    print(session.tokens)
"""


@pytest.mark.host
def test_saving_to_a_full_place_is_one_sentence_and_leaves_no_file(folder, tmp_path):
    out = tmp_path / "saved"
    done = subprocess.run(
        [sys.executable, "-c", FULL, folder, out], capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"io '{out}' cannot be written: File too large", "[1, 2, 3]"]
    assert not list(tmp_path.glob("saved*"))


@pytest.mark.host
def test_a_saved_session_that_is_cut_or_changed_anywhere_is_refused_and_changes_nothing(model, tmp_path):
    path = tmp_path / "saved"
    with model.session() as session:
        session.generate([1, 2, 3], max_tokens=1).run()
        session.save(path)
        whole = path.read_bytes()
        session.generate([7, 8], max_tokens=1).run()
        with path.open("r+b") as file:
            for place in range(0, len(whole), STEP):
                os.pwrite(file.fileno(), bytes([whole[place] ^ 0x41]), place)
                refused(lambda: session.restore(path))
                os.pwrite(file.fileno(), whole[place : place + 1], place)
            for length in reversed(range(0, len(whole), STEP)):
                file.truncate(length)
                refused(lambda: session.restore(path))
        path.write_bytes(whole + b"x")
        refused(lambda: session.restore(path))
        assert session.tokens == [7, 8]
        path.write_bytes(whole)
        session.restore(path)
        assert session.tokens == [1, 2, 3]


def test_a_file_of_another_program_or_of_a_plain_session_is_refused(model, tmp_path):
    path = tmp_path / "saved"
    with model.model.session() as plain:
        plain.run(np.array([[1, 2]]), np.array([0]))
        plain.save(path)
    with model.session() as session:
        assert "was not saved by a generator" in str(refused(lambda: session.restore(path)))
        assert session.tokens == []
        session.generate([1, 2, 3], max_tokens=1).run()
        session.save(path)
    script = Script()
    script.table[0, 0] = 7
    with (
        nibble.LanguageModel(script.make(tmp_path / "other")) as other,
        other.session() as session,
    ):
        assert "other weights" in str(refused(lambda: session.restore(path)))
