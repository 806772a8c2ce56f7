"""Chat and completions: what comes back, whole and in chunks, and what each parameter does."""

import json

import pytest

import nibble
from nibble._serve.metrics import Metrics
from support import served_model
from support.serving import wait_for

CHAT, COMPLETE = "/v1/chat/completions", "/v1/completions"


def chat(text: str = "hi", **more) -> dict:
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 12,
        **more,
    }


def words(answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [choice["message"]["content"] for choice in answer.json["choices"]]


@pytest.fixture(scope="module")
def alone(folder):
    """What the library says by itself."""
    with nibble.LanguageModel(folder) as model:
        yield lambda text, **settings: model.generate(text, **{"max_tokens": 12, **settings}).run()


def test_an_answer_is_that_of_the_library(served, alone):
    answer = served.post(CHAT, chat("What is it?"))
    assert words(answer) == [alone("What is it?")]
    body = answer.json
    assert (body["object"], body["model"], body["choices"][0]["finish_reason"]) == ("chat.completion", "tiny", "length")
    assert body["usage"]["completion_tokens"] == 12
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 12
    assert answer.headers["x-request-id"].startswith("req_")


def test_a_stream_has_a_role_deltas_a_reason_and_the_usage(served, alone):
    answer = served.post(CHAT, chat(stream=True, stream_options={"include_usage": True}))
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, *middle, last, usage = answer.chunks
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in middle) == alone("hi")
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "length")
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 12)
    assert all(chunk["usage"] is None for chunk in (first, *middle, last))
    assert len({chunk["id"] for chunk in answer.chunks}) == 1


def test_a_request_repeated_computes_one_token(served):
    served.post(CHAT, chat("once and again"))
    usage = served.post(CHAT, chat("once and again")).json["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def test_a_long_prompt_is_a_step_for_each_chunk_between_which_others_have_their_turn(served):
    seen = len(served.logs)
    tokens = served.post(CHAT, chat("y" * 600, max_tokens=1)).json["usage"]["prompt_tokens"]
    wait_for(lambda: any(line.get("prompt_tokens") == tokens for line in served.logs[seen:]))
    (line,) = [line for line in served.logs[seen:] if line.get("prompt_tokens") == tokens]
    chunks = -(-(tokens - line["cached_tokens"]) // served_model.CHUNK)
    assert line["steps"] == chunks + 1  # in which nothing is computed: the answer has its one token


def test_several_answers_draw_for_themselves_and_again_in_the_same_way(served):
    asked = chat(n=3, temperature=1, seed=5)
    first = words(served.post(CHAT, asked))
    assert len(set(first)) == 3
    assert words(served.post(CHAT, asked)) == first
    chunks = served.post(CHAT, {**asked, "stream": True}).chunks
    parts = [(choice["index"], choice["delta"].get("content", "")) for one in chunks for choice in one["choices"]]
    assert ["".join(text for index, text in parts if index == place) for place in range(3)] == first
    assert words(served.post(CHAT, {**asked, "seed": -5})) != first


def test_the_text_ends_before_a_stop_string(served, alone):
    whole = alone("hi")
    answer = served.post(CHAT, chat(stop=[whole[4:6], "never"]))
    assert words(answer) == [whole[: whole.index(whole[4:6])]]
    assert answer.json["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "stop", ["\x00", "\u202e", "e\u0301", "\uffff", "\U0010ffff", "👩\u200d👧", "\n\r\u2028", "\ufeff"]
)
def test_a_stop_string_may_be_any_text(served, alone, stop):
    assert words(served.post(CHAT, chat(stop=stop))) == [alone("hi")]


def test_logprobs_come_with_tokens_bytes_and_others(served):
    whole = served.post(CHAT, chat(logprobs=True, top_logprobs=2, max_tokens=4)).json["choices"][0]
    listed = whole["logprobs"]["content"]
    assert "".join(one["token"] for one in listed) == whole["message"]["content"]
    assert all(bytes(one["bytes"]).decode() == one["token"] and one["logprob"] < 0 for one in listed)
    assert all(one["top_logprobs"][0]["token"] == one["token"] for one in listed)
    assert [len(one["top_logprobs"]) for one in listed] == [2] * 4
    chunks = served.post(CHAT, chat(logprobs=True, top_logprobs=2, max_tokens=4, stream=True)).chunks
    streamed = [one["choices"][0]["logprobs"] for one in chunks if one["choices"][0]["logprobs"]]
    assert [one for part in streamed for one in part["content"]] == listed


def test_biases_and_penalties_change_what_is_said(served):
    plain = words(served.post(CHAT, chat()))
    (letter,) = served.text().model.tokenizer.encode("z")
    assert words(served.post(CHAT, chat(logit_bias={str(letter): 100}))) == ["z" * 12]
    for name in ("presence_penalty", "frequency_penalty"):
        assert words(served.post(CHAT, chat(**{name: 2}))) != plain
    assert words(served.post(CHAT, chat(repetition_penalty=1.5))) != plain
    assert words(served.post(CHAT, chat(top_k=1, top_p=0.5, min_p=0.1, temperature=1))) == plain


PERSON = {
    "type": "object",
    "properties": {"name": {"enum": ["Ann", "Zoë"]}, "grown": {"type": "boolean"}},
    "required": ["name", "grown"],
    "additionalProperties": False,
}


def test_the_answer_is_of_the_format_that_is_asked_for(served):
    schema = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    answer = served.post(CHAT, chat(response_format=schema, temperature=1, max_tokens=400))
    person = json.loads(words(answer)[0])
    assert set(person) == {"name", "grown"}
    assert answer.json["choices"][0]["finish_reason"] == "stop"
    several = words(served.post(CHAT, chat(response_format=schema, temperature=1, max_tokens=400, n=3)))
    assert [set(json.loads(one)) for one in several] == [{"name", "grown"}] * 3
    some = words(served.post(CHAT, chat(response_format={"type": "json_object"}, max_tokens=200)))[0]
    assert isinstance(json.loads(some), dict)
    assert words(served.post(CHAT, chat(response_format={"type": "text"}))) == words(served.post(CHAT, chat()))


def test_developers_speak_as_the_system_and_parts_are_joined(served):
    def asked(role, content):
        return chat(messages=[{"role": role, "content": content}, {"role": "user", "content": "hi"}])

    parts = [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]
    answers = [words(served.post(CHAT, asked(*who))) for who in (("system", "be brief"), ("developer", parts))]
    assert answers[0] == answers[1]


def test_completions_go_on_with_texts_and_tokens(served, alone):
    def complete(prompt, **more):
        asked = {"model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": 6, **more}
        answer = served.post(COMPLETE, asked)
        assert answer.status == 200, answer.body
        return [choice["text"] for choice in answer.json["choices"]]

    tokens = served.text().model.tokenizer.encode("the end")
    wanted = alone("the end", raw=True, max_tokens=6)
    assert complete("the end") == complete(tokens) == [wanted]
    assert complete(["a", "the end", "b"])[1] == wanted
    assert complete([tokens, [7]], echo=True)[0] == "the end" + wanted
    body = served.post(COMPLETE, {"model": "tiny", "prompt": "the end", "temperature": 0, "logprobs": 1}).json
    assert (body["object"], body["usage"]["completion_tokens"]) == ("text_completion", 16)
    listed = body["choices"][0]["logprobs"]
    assert "".join(listed["tokens"]) == body["choices"][0]["text"]
    assert listed["text_offset"][1] == len(listed["tokens"][0])
    chunks = served.post(COMPLETE, {"model": "tiny", "prompt": "x", "stream": True, "temperature": 0}).chunks
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == alone("x", raw=True, max_tokens=16)


def test_numbers_have_all_their_digits():
    text = Metrics().text([("steps_total", "Steps.", "", 1234567), ("pause_seconds", "A pause.", "", 0.25)])
    assert "# TYPE nibble_steps_total counter\nnibble_steps_total 1234567\n" in text
    assert "# TYPE nibble_pause_seconds gauge\nnibble_pause_seconds 0.250000\n" in text


def test_models_health_metrics_and_the_page(served):
    listed = served.get("/v1/models").json
    assert [(model["id"], model["object"]) for model in listed["data"]] == [("tiny", "model"), ("words", "model")]
    assert served.get("/v1/models/tiny").json["context_length"] == 1024
    assert served.get("/health").json == {"status": "ok"}
    metrics = served.get("/metrics").body.decode()
    assert 'nibble_requests_total{path="/health",status="200"}' in metrics
    assert all(line.startswith("#") or len(line.rsplit(" ", 1)) == 2 for line in metrics.splitlines())
    for name in ("steps_total", "device_reopened_total"):
        assert f"# TYPE nibble_{name} counter" in metrics
    page = served.get("/")
    assert b"<h1>Chat</h1>" in page.body
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"v1/chat/completions" in served.get("/page.js").body
