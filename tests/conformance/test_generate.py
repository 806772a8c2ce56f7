"""Text generation on the device, token by token against eager torch."""

import json
import threading

import numpy as np
import pytest

import nibble
from conformance.generate_cases import GENERATED, PROMPT, VOCABULARY
from conformance.llm_case import MOST
from support.tiny_model import make_folder

CONTEXT = 256
OTHER = "add"  # a program that is none
NEVER = []  # no token ends a generation


class Golden:
    """What eager torch generates: the prompt, and each time the likeliest token. NumPy agrees wherever it is clear."""

    def __init__(self, exported):
        calls = exported.calls("torch")
        self.prompt = [int(token) for (tokens, _), _ in calls[: -(-PROMPT // MOST)] for token in tokens[0]]
        logits = [np.asarray(result[0][0]) for _, result in calls[-(-PROMPT // MOST) - 1 :]]
        self.tokens = [int(one.argmax()) for one in logits]
        by_numpy = [np.asarray(result[0][0]) for _, result in exported.calls("numpy")[-(-PROMPT // MOST) - 1 :]]
        for one, other in zip(logits, by_numpy, strict=True):
            second, first = np.sort(one)[-2:]
            assert one.argmax() == other.argmax() or first - second < 1e-3


@pytest.fixture(scope="module")
def folder(programs, tmp_path_factory):
    from conformance.programs import ExportedProgram

    exported = ExportedProgram.get("llm_greedy", programs)
    return make_folder(tmp_path_factory.mktemp("tiny") / "model", exported.path, VOCABULARY)


@pytest.fixture(scope="module")
def golden(programs):
    from conformance.programs import ExportedProgram

    return Golden(ExportedProgram.get("llm_greedy", programs))


@pytest.fixture(scope="module")
def model(folder):
    with nibble.LanguageModel(folder) as loaded:
        yield loaded


def ids(generation) -> list[int]:
    generation.run()
    return generation.ids


def test_greedy_tokens_are_those_of_eager_torch(model, golden):
    generation = model.generate(golden.prompt, max_tokens=GENERATED, stop_ids=NEVER)
    assert ids(generation) == golden.tokens
    assert generation.finish_reason == "length"
    assert generation.usage.prompt_tokens == PROMPT
    assert generation.usage.completion_tokens == GENERATED


@pytest.mark.parametrize("options", [{"candidates": 0}, {"candidates": 1}, {"f16_cache": True}], ids=str)
def test_options_of_loading_change_no_clear_choice(folder, golden, options):
    with nibble.LanguageModel(folder, **options) as model:
        got = ids(model.generate(golden.prompt, max_tokens=40, stop_ids=NEVER))
    # Half precision may choose otherwise where two tokens are close.
    assert got == golden.tokens[:40] or (options.get("f16_cache") and got[0] == golden.tokens[0])


def test_rewind_fork_and_restore_go_on_as_if_nothing_had_been(model, golden, tmp_path):
    with model.session() as session:
        assert ids(session.generate(golden.prompt, max_tokens=70, stop_ids=NEVER)) == golden.tokens[:70]
        session.rewind(PROMPT + 20)
        assert session.tokens == golden.prompt + golden.tokens[:20]
        rest = session.generate(golden.prompt + golden.tokens[:30], max_tokens=50, stop_ids=NEVER)
        assert ids(rest) == golden.tokens[30:80]
        assert rest.usage.cached_tokens == PROMPT + 20
        with session.fork() as other:
            assert other.tokens == session.tokens
            assert ids(session.generate([1, 2, 3], max_tokens=5, stop_ids=NEVER)) != golden.tokens[80:85]
            more = other.generate(golden.prompt + golden.tokens[:80], max_tokens=60, stop_ids=NEVER)
            assert ids(more) == golden.tokens[80:140]
            assert more.usage.cached_tokens == PROMPT + 79
            other.save(tmp_path / "kept")
        with model.session() as third:
            third.restore(tmp_path / "kept")
            assert third.tokens == golden.prompt + golden.tokens[:139]
            last = third.generate(golden.prompt + golden.tokens[:140], max_tokens=60, stop_ids=NEVER)
            assert ids(last) == golden.tokens[140:]
            assert last.usage.cached_tokens == PROMPT + 139


def test_a_repeated_request_computes_one_token(model, golden):
    with model.session() as session:
        first = session.generate(golden.prompt, max_tokens=3, stop_ids=NEVER)
        assert ids(first) == golden.tokens[:3]
        assert first.stats["calls"] == -(-PROMPT // MOST) + 2
        again = session.generate(golden.prompt, max_tokens=1, stop_ids=NEVER)
        assert ids(again) == golden.tokens[:1]
        assert again.usage.cached_tokens == PROMPT - 1
        assert again.stats["calls"] == 1


def test_a_step_is_a_chunk_of_the_prompt_or_a_token(model, golden):
    with model.session() as session:
        generation = session.begin(model.prepare(golden.prompt, max_tokens=3, stop_ids=NEVER))
        for chunk in range(PROMPT // MOST):
            assert (generation.step(), generation.stats["calls"]) == (None, chunk + 1)
        for count in range(1, 4):
            generation.step()
            assert generation.ids == golden.tokens[:count]


def test_a_prompt_longer_than_the_context_is_an_error_with_both_numbers(model):
    with pytest.raises(nibble.NibbleError, match=f"{CONTEXT + 1} tokens.*{CONTEXT}"):
        model.generate([1] * (CONTEXT + 1))


def test_the_context_is_filled_to_its_end(model):
    generation = model.generate([5] * (CONTEXT - 3), stop_ids=NEVER)
    assert len(ids(generation)) == 3
    assert generation.finish_reason == "length"


@pytest.mark.host
@pytest.mark.parametrize(
    ("prompt", "settings", "sentence"),
    [
        ([], {}, "no tokens"),
        ([1, VOCABULARY], {}, str(VOCABULARY)),
        ([1, -1], {}, "-1"),
        ([1, 1 << 40], {}, "no token id"),
        ([1.5], {}, "list of token ids"),
        ([1], {"temperature": -1}, "temperature is -1"),
        ([1], {"temperature": float("nan")}, "temperature must be a finite number"),
        ([1], {"top_p": 2}, "top_p is 2"),
        ([1], {"top_k": -3}, "top_k is -3"),
        ([1], {"top_k": 1.5}, "top_k must be a whole number"),
        ([1], {"repetition_penalty": 0}, "repetition_penalty is 0"),
        ([1], {"max_tokens": -1}, "max_tokens is -1"),
        ([1], {"max_tokens": 0}, "max_tokens is 0, but it must be at least 1; None is no limit"),
        ([{"role": "user", "content": "x"}], {"raw": True}, "raw is for text"),
        ([1], {"logit_bias": {VOCABULARY: 1}}, f"token {VOCABULARY}"),
        ([1], {"stop": ""}, "stop string"),
        ([1], {"stop_ids": [-1]}, "stop_ids must be a list of token ids"),
        ([1], {"seed": -1}, "seed must be a whole number"),
        ([1], {"system": "x"}, "system message"),
        ([{"role": "user"}, 3], {}, r"messages\[1\]"),
        ([{"content": "x"}], {}, "needs a role"),
        ([1], {"json_schema": "{"}, "no JSON"),
        ([1], {"json_schema": {"type": 3}}, "json_schema cannot be used: type must be"),
        ([1], {"regex": "("}, "regex cannot be used: the pattern"),
        ([1], {"regex": "a", "json_object": True}, "only one of json_object and regex"),
    ],
)
def test_bad_requests_are_one_sentence_and_the_next_one_works(model, golden, prompt, settings, sentence):
    with pytest.raises(nibble.NibbleError, match=sentence) as error:
        model.generate(prompt, **settings)
    assert "\n" not in str(error.value)
    assert ids(model.generate(golden.prompt, max_tokens=2, stop_ids=NEVER)) == golden.tokens[:2]


@pytest.mark.host
def test_an_unknown_setting_is_named(model):
    with pytest.raises(TypeError, match=r"temprature.*top_k.*max_tokens.*stop_ids.*seed.*logit_bias.*json_schema"):
        model.generate([1], temprature=1)


@pytest.mark.host
def test_what_is_handed_out_has_public_names(model):
    generation = model.generate([1], max_tokens=1)
    assert isinstance(generation, nibble.Generation)
    assert isinstance(next(generation), nibble.Piece)
    with model.session() as session:
        assert isinstance(session, nibble.TextSession)


def test_a_stop_token_ends_it_and_is_not_handed_out(model, golden):
    generation = model.generate(golden.prompt, max_tokens=GENERATED, stop_ids=[golden.tokens[9]])
    first = golden.tokens.index(golden.tokens[9])
    assert ids(generation) == golden.tokens[:first]
    assert generation.finish_reason == "stop"
    assert generation.text == model.tokenizer.decode(golden.tokens[:first])


def test_a_stop_string_ends_it_before_it_and_is_not_handed_out(model, golden):
    whole = model.generate(golden.prompt, max_tokens=60, stop_ids=NEVER).run()
    stop = whole[20:23]
    generation = model.generate(golden.prompt, max_tokens=60, stop_ids=NEVER, stop=[stop, "never to be seen"])
    assert generation.run() == whole[: whole.index(stop)]
    assert generation.finish_reason == "stop"


def test_bytes_that_are_no_text_are_replaced_and_nothing_is_lost(model, golden):
    generation = model.generate(golden.prompt, max_tokens=GENERATED, stop_ids=NEVER)
    pieces = [piece.text for piece in generation]
    # The bytes of a random model are hardly ever text: all that is none is replaced, and nothing is lost.
    assert "".join(pieces) == model.tokenizer.decode(golden.tokens) == generation.text


def test_sampling_depends_on_the_seed_alone(model, folder, golden):
    settings = {"temperature": 1.0, "top_p": 0.9, "top_k": 50, "max_tokens": 30, "stop_ids": NEVER}
    first = ids(model.generate(golden.prompt, seed=7, **settings))
    assert ids(model.generate(golden.prompt, seed=7, **settings)) == first
    assert ids(model.generate(golden.prompt, seed=8, **settings)) != first
    with nibble.LanguageModel(folder, candidates=0) as all_logits:
        assert ids(all_logits.generate(golden.prompt, seed=7, **settings)) == first


def test_sampling_without_truncation_reads_all_logits_and_works(model, folder, golden):
    settings = {"temperature": 1.3, "seed": 3, "max_tokens": 30, "stop_ids": NEVER}
    with nibble.LanguageModel(folder, candidates=0) as all_logits:
        assert ids(all_logits.generate(golden.prompt, **settings)) == ids(model.generate(golden.prompt, **settings))


def test_logprobs_are_those_of_the_logits(model, golden, programs):
    from conformance.programs import ExportedProgram

    calls = ExportedProgram.get("llm_greedy", programs).calls("torch")[-(-PROMPT // MOST) - 1 :]
    generation = model.generate(golden.prompt, max_tokens=5, stop_ids=NEVER, top_logprobs=3)
    pieces = list(generation)
    got = [one for piece in pieces for one in piece.logprobs]
    tops = [one for piece in pieces for one in piece.top_logprobs]
    assert [one.id for one in got] == golden.tokens[:5]
    for one, top, (_, (logits,)) in zip(got, tops, calls, strict=False):
        wanted = logits[0].astype(np.float64)
        wanted -= np.log(np.exp(wanted - wanted.max()).sum()) + wanted.max()
        assert one.logprob == pytest.approx(wanted[one.id], abs=1e-3)
        assert top[0].id == one.id
        assert [other.logprob for other in top] == pytest.approx(sorted(wanted)[:-4:-1], abs=1e-3)


def test_cancelling_ends_it_within_a_step_and_the_session_goes_on(model, golden):
    with model.session() as session:
        generation = session.generate(golden.prompt, max_tokens=GENERATED, stop_ids=NEVER)
        for _ in generation:
            if len(generation.ids) >= 5:
                generation.cancel()
        assert generation.finish_reason == "cancelled"
        assert len(generation.ids) <= 6
        assert ids(session.generate(golden.prompt, max_tokens=40, stop_ids=NEVER)) == golden.tokens[:40]


def test_cancelling_before_the_prompt_is_computed_leaves_the_session_right(model, golden):
    with model.session() as session:
        generation = session.generate(golden.prompt, max_tokens=9, stop_ids=NEVER)
        generation.cancel()
        assert generation.run() == ""
        assert generation.finish_reason == "cancelled"
        assert ids(session.generate(golden.prompt, max_tokens=9, stop_ids=NEVER)) == golden.tokens[:9]


def test_cancelling_from_another_thread_during_the_prompt(model, golden):
    with model.session() as session:
        for delay in (0.0, 0.001, 0.005, 0.02):
            session.reset()
            generation = session.generate([3] * (CONTEXT - 10), max_tokens=9, stop_ids=NEVER)
            timer = threading.Timer(delay, generation.cancel)
            timer.start()
            generation.run()
            timer.join()
            assert generation.finish_reason in ("cancelled", "length")
        assert ids(session.generate(golden.prompt, max_tokens=9, stop_ids=NEVER)) == golden.tokens[:9]


def test_sessions_at_once_do_not_mix(model, golden):
    prompts = [golden.prompt[start:] + golden.prompt[:start] for start in range(4)]
    alone = [ids(model.generate(prompt, max_tokens=40, stop_ids=NEVER)) for prompt in prompts]
    results: dict[int, list[int]] = {}

    def run(number: int) -> None:
        with model.session() as session:
            results[number] = ids(session.generate(prompts[number], max_tokens=40, stop_ids=NEVER))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[number] for number in range(4)] == alone


def test_a_generation_ends_when_its_session_begins_another(model, golden):
    with model.session() as session:
        first = session.generate(golden.prompt, max_tokens=9, stop_ids=NEVER)
        next(first)
        second = session.generate(golden.prompt[:20], max_tokens=9, stop_ids=NEVER)
        with pytest.raises(nibble.NibbleError, match="begun another one"):
            next(first)
        first.cancel()  # does nothing to the second
        assert len(ids(second)) == 9


def test_nothing_grows_to_the_end_of_the_context(model, golden):
    with model.session() as session:
        generation = session.generate(golden.prompt, stop_ids=NEVER)
        next(generation)
        counts, objects, before = [], [], generation.stats
        pipelines = model.device.compiled_pipelines
        for _ in generation:
            now = generation.stats
            if (calls := now["calls"] - before["calls"]) > 0:
                counts.append((now["dispatches"] - before["dispatches"]) / calls)
                objects.append(model.device.live_objects)
            before = now
    assert before["generated_tokens"] == CONTEXT - PROMPT
    # Attention may take another kernel where there is more to look at.
    assert len(set(counts)) <= 2
    assert len(set(counts[len(counts) // 2 :])) == 1
    assert len(set(objects[len(objects) // 2 :])) == 1
    assert model.device.compiled_pipelines == pipelines


def test_closing_frees_what_a_session_held(model, golden):
    before = model.device.live_objects
    for _ in range(3):
        with model.session() as session:
            next(session.generate(golden.prompt, stop_ids=NEVER))  # and a step is in flight
    assert model.device.live_objects == before


SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Ann", "Bob", "Zoë"]}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def check_person(text: str) -> None:
    person = json.loads(text)
    assert set(person) == {"name", "age"}
    assert person["name"] in SCHEMA["properties"]["name"]["enum"]
    assert 0 <= person["age"] <= 150


@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_output_is_of_the_schema(model, count):
    with model.session() as session:
        for seed in range(count):
            generation = session.generate(
                [1, 2, 3], json_schema=SCHEMA, temperature=1, seed=seed, max_tokens=CONTEXT - 10
            )
            check_person(generation.run())
            assert generation.finish_reason == "stop"


@pytest.mark.host
def test_a_pattern_and_a_grammar_are_followed(model):
    assert model.generate([1, 2], regex="[0-9]{3}-[0-9]{2}").run().replace("-", "").isdigit()
    assert model.generate([1, 2], grammar='start: "yes" | "no"').run() in ("yes", "no")


@pytest.mark.host
def test_a_chat_template_that_refuses_is_an_error_never_another_format(model):
    with pytest.raises(nibble.NibbleError, match="refuses these messages: there is no role robot"):
        model.generate([{"role": "robot", "content": "hello"}])


@pytest.mark.host
@pytest.mark.parametrize("template", ["{% for %}", "{{ messages[0].nothing.at.all }}", "{{ 1 // 0 }}"])
def test_a_broken_chat_template_is_an_error(folder, tmp_path, template):
    other = make_folder(tmp_path / "model", folder / "model.pte", VOCABULARY, chat_template=template)
    with (
        pytest.raises(nibble.NibbleError, match="the chat template"),
        nibble.LanguageModel(other) as model,
    ):
        model.generate("hello")


@pytest.mark.host
def test_messages_are_written_as_the_template_says(model):
    tokens = model.tokens_of("hé", system="be brief")
    wanted = "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhé<|im_end|>\n<|im_start|>assistant\n"
    assert tokens == model.tokenizer.encode(wanted)
    assert tokens.count(VOCABULARY - 3) == 3
    assert model.tokens_of("hé", raw=True) == model.tokenizer.encode("hé")


@pytest.mark.host
def test_what_is_no_language_model_is_refused(program, tmp_path):
    other = make_folder(tmp_path / "model", program(OTHER).path, VOCABULARY)
    with (
        pytest.raises(nibble.NibbleError, match="no language model"),
        nibble.LanguageModel(other, candidates=0) as model,
    ):
        model.generate([1])
