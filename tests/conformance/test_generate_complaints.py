"""What users of other runners complain of most, each a test: on a model that says what it is told."""

import json
import threading

import pytest

import nibble
from nibble import _native
from nibble._interrupt import StopCheck
from nibble._text.constraint import Constraint
from support.scripted_model import CHUNK, CONTEXT, Script

NEVER = []  # no token ends a generation


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def load(tmp_path):
    """A model of a script, closed in the end."""
    models = []

    def load(script: Script, options: dict | None = None, **facts) -> nibble.LanguageModel:
        folder = script.make(tmp_path / f"model{len(models)}", **facts)
        models.append(nibble.LanguageModel(folder, **(options or {})))
        return models[-1]

    yield load
    for model in models:
        model.close()


def test_a_prompt_is_never_cut_in_silence(script, load):
    model = load(script)
    with pytest.raises(
        nibble.NibbleError, match=f"the prompt has {CONTEXT + 1} tokens, but the context holds {CONTEXT}"
    ):
        model.generate([1] * (CONTEXT + 1))
    whole = model.generate([1] * (CONTEXT - 1), stop_ids=NEVER)
    whole.run()
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (CONTEXT - 1, 1)


def test_a_prefix_that_the_session_holds_is_not_computed_again(script, load):
    model = load(script)
    first = [3] * (5 * CHUNK)
    generation = model.generate(first, max_tokens=1)
    generation.run()
    assert generation.stats["calls"] == 5
    longer = model.generate([*first, 4, 5], max_tokens=1)
    longer.run()
    assert longer.usage.cached_tokens == len(first)
    assert longer.stats["calls"] == 1
    again = model.generate([*first, 4, 5], max_tokens=1)
    again.run()
    assert again.usage.cached_tokens == len(first) + 1
    other = model.generate([3] * CHUNK + [7] * (4 * CHUNK), max_tokens=1)
    other.run()
    assert other.usage.cached_tokens == CHUNK


def test_nothing_goes_on_after_a_cancel(script, load):
    model = load(script)
    generation = model.generate([1], stop_ids=NEVER)
    for _ in range(3):
        next(generation)
    generation.cancel()
    assert list(generation) == []
    assert (generation.finish_reason, generation.usage.completion_tokens) == ("cancelled", 3)
    calls = generation.stats["calls"]
    assert calls == 4  # one was on its way
    assert next(model.generate([1, *generation.ids], max_tokens=1)).ids


def test_nothing_goes_on_after_another_thread_cancels_in_the_prompt(script, load):
    # The library asks between the batches of a call whether to stop; here, each dispatch is a batch.
    model = load(script, {"max_batch_work": 1})
    generation = model.generate([1] * (15 * CHUNK), stop_ids=NEVER)
    asked = []

    @StopCheck
    def cancel() -> bool:
        asked.append(True)
        other = threading.Thread(target=generation.cancel)
        other.start()
        other.join()
        return False

    def run() -> None:
        _native.lib.nibble_set_stop_check(cancel)  # of this thread
        generation.run()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert asked
    assert (generation.finish_reason, generation.ids) == ("cancelled", [])
    assert generation.stats["calls"] <= 1
    assert len(list(model.generate([1] * (15 * CHUNK), max_tokens=2, stop_ids=NEVER))) == 2


@pytest.mark.parametrize("text", ["né", "x猫y", "ö🙂", "ж日"])
def test_characters_come_whole_while_they_stream(script, load, text):
    first, *others = script.says(text)
    model = load(script)
    pieces = [piece.text for piece in model.generate([first], max_tokens=len(others), stop_ids=NEVER)]
    said = text.encode()[len(model.tokenizer.bytes_of(first)) :].decode(errors="ignore")
    assert "".join(pieces).lstrip("\ufffd") == said
    assert all(piece == "\ufffd" or piece in said for piece in pieces)


def test_a_stop_token_ends_the_text_and_is_not_printed(script, load):
    first, *_, stop, _ = script.says("ahi<|im_end|>!")
    model = load(script, stop_ids=[stop])
    generation = model.generate([first], max_tokens=9)
    assert generation.run() == "hi"
    assert (generation.finish_reason, stop in generation.ids) == ("stop", False)
    assert generation.stats["finish"] == "stop_id"
    ignored = model.generate([first], max_tokens=4, stop_ids=NEVER)
    assert ignored.run() == "hi!"  # what does not end it is not printed either


@pytest.mark.parametrize("settings", [{"stop": "i"}, {"regex": "h"}, {"stop": "h", "max_tokens": 1}], ids=str)
def test_figures_say_that_the_text_has_ended(script, load, settings):
    first, *_ = script.says("ahix")
    generation = load(script).generate([first], **{"max_tokens": 9, **settings})
    generation.run()
    assert generation.finish_reason == "stop"
    assert (generation.stats["finish_reason"], generation.stats["finish"]) == ("stop", "stop_text")


def test_json_is_of_the_schema_and_ends_whatever_the_model_wants(script, load):
    # This model wants spaces, and nothing else.
    space = script.tokens(" ")[0]
    script.table[:, space] = 20
    model = load(script)
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    generation = model.generate([1], json_schema={**schema, "additionalProperties": False}, max_tokens=200)
    assert generation.run().split() in (["{", '"ok"', ":", "true", "}"], ["{", '"ok"', ":", "false", "}"])
    assert generation.finish_reason == "stop"


def test_a_schema_takes_one_mask_for_each_token(script, load, monkeypatch):
    """Counted in masks: bench/generate.py says how long one takes."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 100, "maximum": 999}}}
    schema |= {"required": ["n"], "additionalProperties": False}
    model, masks, taken = load(script), [], []
    plain_allowed, plain_take = Constraint.allowed, Constraint.take
    monkeypatch.setattr(Constraint, "allowed", lambda self: masks.append(self) or plain_allowed(self))
    monkeypatch.setattr(Constraint, "take", lambda self, token: taken.append(token) or plain_take(self, token))
    for _ in range(2):
        generation = model.generate([1], json_schema=schema, max_tokens=100)
        assert 100 <= json.loads(generation.run())["n"] <= 999
        assert (taken, len(masks)) == (generation.ids, len(generation.ids))
        masks.clear()
        taken.clear()


def test_a_template_that_fails_is_an_error_and_never_another_format(script, load):
    for template in ("{{ messages[0].no.such }}", "{{ raise_exception('no') }}", "{% for"):
        with pytest.raises(nibble.NibbleError, match="the chat template"):
            load(script, chat_template=template).generate("hello")


@pytest.mark.parametrize("candidates", [0, 64])
@pytest.mark.parametrize(("penalty", "wanted"), [(1.1, "a"), (1.2, "b")])
def test_a_penalty_counts_once_for_each_token(script, load, candidates, penalty, wanted):
    a, b = script.tokens("ab".replace("", " ").strip())[::2]
    script.table[:, a], script.table[:, b] = 4, 3.5
    model = load(script, {"candidates": candidates})
    # Once, 4 / 1.1 is above 3.5; for each of three times it would be below.
    generation = model.generate([a, a, a], max_tokens=1, repetition_penalty=penalty)
    assert generation.run() == wanted


def test_requests_at_once_do_not_mix(script, load):
    texts = ["bcd", "exf", "gyh", "izj"]
    starts = [script.says(text)[0] for text in texts]
    model, results = load(script), {}

    def run(number: int) -> None:
        with model.session() as session:
            results[number] = [session.generate([starts[number]], max_tokens=2).run() for _ in range(20)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[number] for number in range(4)] == [[text[1:]] * 20 for text in texts]


def test_a_step_takes_the_same_to_the_end_of_the_context(script, load):
    model = load(script)
    generation = model.generate([1], stop_ids=NEVER)
    next(generation)
    first, objects = generation.stats, model.device.live_objects
    generation.run()
    last = generation.stats
    assert last["generated_tokens"] == CONTEXT - 1
    assert last["dispatches"] / last["calls"] == first["dispatches"] / first["calls"]
    assert model.device.live_objects == objects


def test_in_the_midst_of_every_chunk_of_a_prompt_another_session_gets_a_token(script, load):
    """So nobody waits for more than a chunk: there the prompt stands still until the other one has its token."""
    # The library asks between the batches of a call whether to stop; here, each dispatch is a batch.
    model = load(script, {"max_batch_work": 1})
    chunks, current, served = -(-(CONTEXT - 1) // CHUNK), -1, []
    wanted, given = threading.Semaphore(0), threading.Semaphore(0)
    with model.session() as one, model.session() as other:
        prompt = one.generate([1] * (CONTEXT - 1), max_tokens=1, stop_ids=NEVER)
        decode = other.generate([1], stop_ids=NEVER)
        next(decode)

        @StopCheck
        def stand_still() -> bool:
            if len(served) == current:  # all chunks before this one had theirs
                wanted.release()
                if given.acquire(timeout=60):
                    served.append(current)
            return False

        def run() -> None:
            nonlocal current
            _native.lib.nibble_set_stop_check(stand_still)  # of this thread
            for current in range(chunks):  # noqa: B007
                prompt.step()
            wanted.release(chunks)

        thread = threading.Thread(target=run)
        thread.start()
        for _ in range(chunks):
            wanted.acquire()
            next(decode)
            given.release()
        thread.join()
    assert served == list(range(chunks))
