"""nibble.ray without Ray: columns and rows in and out, and what becomes of bad ones."""

import json
import subprocess
import sys

import numpy as np
import pandas
import pytest

import nibble
import nibble.ray
from nibble._program import DeviceInfo
from nibble._text.generator import Generator as NativeGenerator
from nibble.ray import adapter_of
from support.scripted_model import CHUNK, CONTEXT, Script
from support.sum_encoder import LENGTH, TABLE, WIDTH, make_encoder
from support.tiny_model import make_tokenizer

pytestmark = pytest.mark.host
TEXTS = ["Saturn has rings.", "ab", "Water the tomatoes.", "猫"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoder") / "sum")


@pytest.fixture(scope="module")
def embed(encoder):
    with nibble.ray.Embedder(encoder, normalize=False) as made:
        yield made


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """After any prompt of the template it says "hi", and stops."""
    script = Script()
    last = script.tokens("\n")[0]
    for token, following in zip([last, *script.says("hi<|im_end|>")], script.says("hi<|im_end|>"), strict=False):
        script.table[token, following] = 10
    return script.make(tmp_path_factory.mktemp("model") / "hi", stop_ids=[script.tokens("<|im_end|>")[0]])


@pytest.fixture(scope="module")
def answer(model):
    with nibble.ray.Generator(model, sampling_params={"max_tokens": 9}) as made:
        yield made


def sums(texts: list[str]) -> np.ndarray:
    tokenizer = make_tokenizer(len(TABLE))
    return np.stack([TABLE[tokenizer.encode(text).ids].sum(0) for text in texts])


def asks(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


class TestEmbedder:
    @pytest.mark.parametrize("form", [list, tuple, np.array, lambda texts: np.array(texts, object)])
    def test_columns_are_kept_and_vectors_added(self, embed, form):
        given = {"id": np.arange(4), "text": form(TEXTS), "tags": [["a"], [], ["b", "c"], None]}
        made = embed(given)
        assert list(made) == ["id", "text", "tags", "embedding", "tokens", "truncated", "error"]
        assert all(made[name] is given[name] for name in given)
        assert (made["embedding"].dtype, made["embedding"].shape) == (np.float32, (4, WIDTH))
        np.testing.assert_allclose(made["embedding"], sums(TEXTS), 0, 1e-5)
        assert made["tokens"].tolist() == [len(make_tokenizer(len(TABLE)).encode(text).ids) for text in TEXTS]
        assert made["truncated"].tolist() == [False] * 4
        assert made["error"].tolist() == [""] * 4

    def test_rows_are_kept_and_vectors_added(self, embed):
        rows = [{"text": text, "id": place} for place, text in enumerate(TEXTS)] + [{"id": 4}]
        made = embed(rows)
        assert [row["id"] for row in made] == [0, 1, 2, 3, 4]
        assert [row["error"] for row in made] == [""] * 4 + ["column 'text' must be text, but it is None"]
        np.testing.assert_allclose([row["embedding"] for row in made[:4]], sums(TEXTS), 0, 1e-5)
        assert (type(made[0]["tokens"]), made[0]["truncated"]) == (int, False)
        assert [set(row) for row in rows] == [{"text", "id"}] * 4 + [{"id"}]

    def test_a_bad_row_has_an_error_and_the_others_a_vector(self, embed):
        texts = ["good", None, 7, b"bytes", "\ud800", "", "x" * (LENGTH + 1), "fine", float("nan"), ["a"]]
        made = embed({"text": np.array(texts, object)})
        assert made["error"].tolist() == [
            "",
            "column 'text' must be text, but it is None",
            "column 'text' must be text, but it is 7",
            "column 'text' must be text, but it is b'bytes'",
            "column 'text' has half of a character at 0, which is no Unicode text",
            "column 'text' has no tokens, so there is no vector",
            "",
            "",
            "column 'text' must be text, but it is nan",
            "column 'text' must be text, but it is ['a']",
        ]
        np.testing.assert_allclose(made["embedding"][[0, 7]], sums(["good", "fine"]), 0, 1e-5)
        bad = [place for place, error in enumerate(made["error"]) if error]
        assert not made["embedding"][bad].any()
        # The beginning of a long text counts, and that it was cut is told.
        assert np.flatnonzero(made["truncated"]).tolist() == [6]
        assert made["tokens"][6] == LENGTH

    def test_all_rows_may_be_bad(self, embed):
        made = embed({"text": [None, None]})
        assert (all(made["error"]), made["embedding"].shape) == (True, (2, WIDTH))

    @pytest.mark.parametrize("given", [{}, {"text": []}, {"text": np.array([], object), "id": np.array([], np.int64)}])
    def test_no_rows_have_the_columns_of_others(self, embed, given):
        made = embed(given)
        assert list(made) == [*given, "embedding", "tokens", "truncated", "error"]
        assert [len(values) for values in made.values()] == [0] * len(made)
        assert (made["embedding"].shape, made["error"].dtype.kind) == ((0, WIDTH), "U")
        assert embed([]) == []

    def test_columns_can_have_other_names(self, encoder):
        names = {"text": "body", "embedding": "vector", "error": "why"}
        with nibble.ray.Embedder(encoder, normalize=False, columns=names) as embed:
            made = embed({"body": TEXTS, "error": [1, 2, 3, 4]})
            assert list(made) == ["body", "error", "vector", "tokens", "truncated", "why"]
            np.testing.assert_allclose(made["vector"], sums(TEXTS), 0, 1e-5)
            assert embed({"body": [1]})["why"].tolist() == ["column 'body' must be text, but it is 1"]

    @pytest.mark.parametrize(
        ("batch", "sentence"),
        [
            (
                {"body": ["a"], "id": [1]},
                "there is no column 'text' among 'body', 'id': the argument 'columns' chooses another one",
            ),
            ([{"body": "a"}], "there is no column 'text' among 'body': the argument 'columns' chooses another one"),
            (
                {"text": ["a"], "error": ["b"]},
                "there is a column 'error' already: the argument 'columns' gives the new one another name",
            ),
            ({"text": ["a"], "id": [1, 2]}, "column 'id' has 2 rows, but 'text' has 1"),
            ({"text": "a"}, "column 'text' must be a list or a NumPy array, but it is str"),
            ({"text": np.array("a")}, "column 'text' must be a list or a NumPy array, but it is numpy.ndarray"),
            (["a"], "row 0 must have values by name, but it is str"),
            *(
                (
                    batch,
                    f"a batch must be columns by name, an Arrow table or a list of rows, but it is {kind}: "
                    "Ray gives the first with batch_format='numpy', its default, and the second with 'pyarrow'",
                )
                for batch, kind in (("a", "str"), (pandas.DataFrame({"text": ["a"]}), "pandas.DataFrame"))
            ),
        ],
        ids=["column", "row", "taken", "lengths", "str", "scalar", "texts", "text", "pandas"],
    )
    def test_a_batch_that_is_none_is_one_sentence(self, embed, batch, sentence):
        with pytest.raises(nibble.NibbleError) as raised:
            embed(batch)
        assert (str(raised.value), raised.value.code) == (sentence, "invalid_argument")

    def test_wrong_arguments_are_one_sentence(self, encoder):
        for columns, sentence in (
            ({"txt": "body"}, "columns has 'txt', but the columns are text, embedding, tokens, truncated, error"),
            ({"tokens": "error"}, "columns has 'tokens' and another one as 'error'"),
        ):
            with pytest.raises(nibble.NibbleError) as raised:
                nibble.ray.Embedder(encoder, columns=columns)
            assert str(raised.value) == sentence
        with pytest.raises(ValueError, match="model must be"):
            nibble.ray.Embedder("bert")


class TestGenerator:
    def test_columns_are_kept_and_answers_added(self, answer):
        given = {"id": np.array([7, 8]), "messages": [asks("one"), asks("two")]}
        made = answer(given)
        assert list(made) == [
            *("id", "messages", "generated_text", "finish_reason"),
            *("prompt_tokens", "cached_tokens", "completion_tokens", "error"),
        ]
        assert all(made[name] is given[name] for name in given)
        assert made["generated_text"].tolist() == ["hi", "hi"]
        assert made["finish_reason"].tolist() == ["stop", "stop"]
        assert made["completion_tokens"].tolist() == [3, 3]  # what ends it is one too
        assert made["error"].tolist() == ["", ""]

    def test_a_row_has_its_own_settings(self, answer):
        params = [None, {"max_tokens": 1}, {"max_tokens": 1.0, "stop": None}, {"stop": ["i"]}, {"logit_bias": {"5": 0}}]
        made = answer([{"messages": asks("one"), "sampling_params": one} for one in params])
        assert [row["generated_text"] for row in made] == ["hi", "h", "h", "h", "hi"]
        assert [row["finish_reason"] for row in made] == ["stop", "length", "length", "stop", "stop"]
        assert [row["completion_tokens"] for row in made] == [3, 1, 1, 2, 3]

    def test_what_arrow_adds_to_a_rows_settings_is_left_out_at_every_depth(self, answer):
        # As if other rows had these keys too.
        properties = {"a": {"type": "integer", "enum": None, "maximum": 1, "minimum": 1}, "b": None}
        schema = {"type": "object", "properties": properties, "required": ["a"], "anyOf": None}
        params = [
            {"json_schema": {**schema, "additionalProperties": False}, "max_tokens": 40, "logit_bias": {"5": None}},
            {"json_schema": {"enum": [None], "type": None}, "max_tokens": 40},
            {"json_schema": '{"const": null}', "max_tokens": 40},
        ]
        made = answer([{"messages": asks("one"), "sampling_params": one} for one in params])
        assert [row["error"] for row in made] == [""] * 3
        assert [json.loads(row["generated_text"]) for row in made] == [{"a": 1}, None, None]

    def test_what_arrow_adds_to_messages_is_left_out_at_every_depth(self):
        function = {"name": "look", "arguments": {"place": "here", "time": None}, "strict": None}
        call = {"id": None, "function": function}
        given = [{"role": "assistant", "content": None, "name": None, "tool_calls": np.array([call, None], object)}]
        wanted = {"function": {"name": "look", "arguments": {"place": "here"}}}
        assert nibble.ray._prompt_of("messages", np.array(given, object)) == [
            {"role": "assistant", "content": None, "tool_calls": [wanted, None]}
        ]

    def test_prompts_come_as_messages_text_or_tokens_in_lists_or_arrays(self, answer):
        tokens = answer._model.tokens_of("one")
        # As Ray hands Arrow's lists and structs over: other rows' keys are there too.
        nested = np.array([{"role": "user", "content": "one", "tool_calls": None}], object)
        made = answer([{"messages": one} for one in (asks("one"), "one", tokens, np.array(tokens), nested)])
        assert [(row["generated_text"], row["error"]) for row in made] == [("hi", "")] * 5
        assert [row["prompt_tokens"] for row in made] == [len(tokens)] * 5

    def test_lists_that_came_as_arrays_become_lists_again(self, answer):
        nested = np.empty(2, object)
        nested[:] = [np.array(asks("one"), object), np.array(asks("two"), object)]
        vectors = np.empty(2, object)
        vectors[:] = [np.zeros(2), np.zeros(3)]
        made = answer({"messages": nested, "vectors": vectors})
        assert made["messages"].tolist() == [asks("one"), asks("two")]
        assert (made["vectors"] is vectors, made["messages"].shape) == (True, (2,))

    def test_what_rows_share_is_computed_once_whatever_their_order(self, answer):
        shared = "a" * (4 * CHUNK)
        made = answer({"messages": [f"{'b' * 40} 1", f"{shared} 1", f"{'b' * 40} 2", f"{shared} 2"]})
        count, cached = made["prompt_tokens"], made["cached_tokens"]
        assert made["generated_text"].tolist() == ["hi"] * 4
        assert cached[3] > 4 * CHUNK / 2 > 10  # pairs of letters are one token
        assert cached[2] > 20
        assert (cached < count).all()

    def test_a_bad_row_has_an_error_and_the_others_an_answer(self, answer):
        rows = [
            ("good", None),
            (None, None),
            ([], None),
            (["a"], None),
            ([True], None),
            ([{"content": "x"}], None),
            ([{"role": "nobody", "content": "x"}], None),
            ("x" * 300, None),
            ([999], None),
            ("\ud800", None),
            ("one", {"temperature": -1}),
            ("one", {"temprature": 1}),
            ("one", {"max_tokens": 0}),
            ("one", {"max_tokens": 1.5}),
            ("one", {"logprobs": True}),
            ("one", 5),
            ("one", {"json_schema": "{"}),
            ("fine", {}),
        ]
        made = answer({"messages": [row[0] for row in rows], "sampling_params": [row[1] for row in rows]})
        long = len(answer._model.tokens_of("x" * 300))
        settings = ", ".join(nibble.ray._OF_SAMPLING)
        kinds = "a list of messages, a text or token ids"
        expected = [
            "",
            f"column 'messages' must be {kinds}, but it is None",
            "the prompt has no tokens",
            f"column 'messages' must be {kinds}, but it is ['a']",
            f"column 'messages' must be {kinds}, but it is [True]",
            "messages[0] needs a role, such as 'user'",
            "the chat template refuses these messages: there is no role nobody",
            f"the prompt has {long} tokens, but the context holds {CONTEXT}",
            "token 0 of the prompt is 999, but the vocabulary has 262 tokens",
            "prompt has half of a character at 0, which is no Unicode text",
            "temperature is -1, but it must be a number from 0 on",
            f"sampling_params has 'temprature', but the settings are {settings}",
            "max_tokens is 0, but it must be at least 1; None is no limit",
            "max_tokens must be a whole number, but it is 1.5",
            f"sampling_params has 'logprobs', but the settings are {settings}",
            "sampling_params must be a mapping of settings, but it is 5",
            None,
            "",
        ]
        assert [want for want in expected if want is not None] == [
            error for error, want in zip(made["error"], expected, strict=True) if want is not None
        ]
        assert made["error"][16].startswith("json_schema is no JSON: ")
        assert made["generated_text"].tolist() == ["" if error else "hi" for error in made["error"]]
        assert made["prompt_tokens"].tolist() == [
            0 if error else len(answer._model.tokens_of("good")) for error in made["error"]
        ]

    def test_a_model_without_a_template_refuses_messages_but_not_the_texts_beside_them(self, tmp_path):
        model = Script().make(tmp_path / "bare", chat_template=None)
        with nibble.ray.Generator(model, sampling_params={"max_tokens": 1}) as answer:
            made = answer({"messages": ["one", asks("one"), "two"]})
        refused = "this model has no chat template, so it takes text but no messages"
        assert made["error"].tolist() == ["", refused, ""]
        assert made["completion_tokens"].tolist() == [1, 0, 1]

    def test_a_seed_draws_the_same_in_any_order(self, answer):
        rows = [
            {"messages": f"{n}", "sampling_params": {"temperature": 50, "seed": n, "stop_ids": []}} for n in range(6)
        ]
        made, again = answer(rows), answer(rows[::-1])[::-1]
        assert [row["generated_text"] for row in made] == [row["generated_text"] for row in again]
        assert len({row["generated_text"] for row in made}) > 3

    @pytest.mark.parametrize("given", [{}, {"messages": []}])
    def test_no_rows_have_the_columns_of_others(self, answer, given):
        made = answer(given)
        assert (len(made), [len(values) for values in made.values()]) == (len(given) + 6, [0] * len(made))
        assert answer([]) == []

    def test_wrong_arguments_are_one_sentence(self, model):
        for params, sentence in (
            ({"max_tokens": "many"}, "max_tokens must be a whole number, but it is 'many'"),
            ([1], "sampling_params must be a mapping of settings, but it is [1]"),
        ):
            with pytest.raises(nibble.NibbleError) as raised:
                nibble.ray.Generator(model, sampling_params=params)
            assert str(raised.value) == sentence

    def test_a_missing_column_is_one_sentence(self, answer):
        with pytest.raises(nibble.NibbleError) as raised:
            answer({"prompt": ["a"]})
        assert str(raised.value).startswith("there is no column 'messages' among 'prompt': ")


class TestDevices:
    @pytest.mark.parametrize("code", ["device_lost", "gpu"])
    @pytest.mark.parametrize("kind", ["embed", "generate"])
    def test_a_device_that_failed_is_opened_again_once(self, encoder, model, monkeypatch, kind, code):
        def fail(*_arguments):
            raise nibble.NibbleError("the device failed: it was only a test", code)

        def fail_once(*_arguments):
            monkeypatch.undo()
            fail()

        made, place = (
            (nibble.ray.Embedder(encoder), (nibble.Encoder, "run"))
            if kind == "embed"
            else (nibble.ray.Generator(model), (NativeGenerator, "next"))
        )
        with made, pytest.MonkeyPatch.context() as failed:
            batch = {made._READS[0]: ["one", None, "two"]}
            wanted, old = made(batch), made._model.device
            monkeypatch.setattr(*place, fail)
            with pytest.raises(nibble.NibbleError, match="only a test"):
                made(batch)
            assert made._model.device is old  # which has not failed
            failed.setattr(nibble.Device, "has_failed", True)
            monkeypatch.setattr(*place, fail_once)
            got = made(batch)
            assert made._model.device is not old
            assert [str(values) for name, values in got.items() if name != "cached_tokens"] == [
                str(values) for name, values in wanted.items() if name != "cached_tokens"
            ]
            monkeypatch.setattr(*place, fail)
            with pytest.raises(nibble.NibbleError, match="only a test"):
                made(batch)

    def test_what_is_wrong_with_the_machine_is_no_rows_error(self, model, monkeypatch):
        def fail(*_arguments):
            raise nibble.NibbleError("out of memory", "out_of_memory")

        with nibble.ray.Generator(model) as answer:
            monkeypatch.setattr(NativeGenerator, "next", fail)
            with pytest.raises(nibble.NibbleError, match="out of memory"):
                answer({"messages": ["one"]})

    def test_actors_have_the_gpus_that_ray_gave_them(self):
        def adapter(number: int, kind: str, engine: str = "wgpu") -> DeviceInfo:
            return DeviceInfo(number, number, engine, f"{kind} {number}", kind, "vulkan", "", {})

        cpu, built_in = adapter(0, "cpu"), adapter(1, "integrated")
        first, second, twin = adapter(2, "discrete"), adapter(3, "discrete"), adapter(4, "discrete", "dawn")
        every = [first, second, twin, built_in, cpu]
        assert adapter_of([], every) is None
        assert [adapter_of([number], every) for number in "01"] == [first, second]
        assert adapter_of(["1", "0"], every) is second
        assert adapter_of(["0"], [built_in, cpu]) is built_in
        for number, adapters, names in (("2", every, "discrete 2, discrete 3"), ("GPU-7", every[:1], "discrete 2")):
            with pytest.raises(nibble.NibbleError) as raised:
                adapter_of([number], adapters)
            wanted = (
                f"Ray has given this actor GPU {number}, but those that can be used are {names}: say which by device="
            )
            assert str(raised.value) == wanted
        with pytest.raises(nibble.NibbleError, match="are none"):
            adapter_of(["0"], [cpu])


def test_neither_ray_nor_arrow_is_imported():
    script = "import sys, nibble.ray; assert not {'ray', 'pyarrow'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
