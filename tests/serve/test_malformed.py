"""Requests that are wrong: each has its status and its sentence, and the next request works."""

import json

import pytest

from support.serving import wait_for

USER = [{"role": "user", "content": "hi"}]
CHAT, COMPLETE, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
OTHER = {"type": "function", "function": {"name": "b"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 3}}}


def chat(**more) -> dict:
    return {"model": "tiny", "messages": USER, "max_tokens": 2, **more}


def says(role="user", **message) -> dict:
    return chat(messages=[{"role": role, **message}])


def shaped(schema: dict) -> dict:
    return chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})


def tool(**function) -> dict:
    return chat(tools=[{"type": "function", "function": function}])


FORMAT, WANTS = "response_format.json_schema.schema", "tools[0].function.parameters"
CHATS = [
    # body, parameter, sentence
    (b"{", None, "the body is no JSON: "),
    (b"\xff", None, "the body is no JSON: "),
    (b"[" * 100000, None, "the body is nested too deeply"),
    (b'{"seed": -' + b"1" * 5000 + b"}", None, "the body has a number of 5000 digits, but it may have 640"),
    (b'{"temperature": NaN}', None, "NaN is no number of JSON"),
    ([], None, "the body must be an object, but it is []"),
    ({"messages": USER}, "model", "model is missing"),
    (chat(model=3), "model", "model is 3, but it must be text"),
    (chat(model="gpt"), "model", 'there is no model "gpt" here, but tiny, words'),
    (chat(model="m" * 9999), "model", f'there is no model "{"m" * 56}…" here, but tiny, words'),
    (chat(model="words"), "model", "the model 'words' makes vectors of texts: it is for /v1/embeddings"),
    ({"model": "tiny"}, "messages", "messages is missing, but a chat needs at least one message"),
    (chat(messages=[]), "messages", "messages is empty"),
    (chat(messages="hi"), "messages", 'messages is "hi", but it must be a list'),
    (chat(messages=[3]), "messages[0]", "messages[0] must be an object, but it is 3"),
    (chat(messages=[{"content": "x"}]), "messages[0].role", "messages[0] has no role"),
    (says(role="robot", content=""), "messages[0].role", 'messages[0].role is "robot", but it must be system'),
    (says(), "messages[0].content", "messages[0].content is null, but it must be text or a list of parts"),
    (says(content=[{"type": "image_url"}]), "messages[0].content[0]", "but the model takes text alone"),
    (says(content=[{"type": "text"}]), "messages[0].content[0]", "messages[0].content[0] has no text"),
    (says(content="\ud800"), "messages[0].content", "messages[0].content has half of a character"),
    (says(role="tool", content="x"), "messages[0].tool_call_id", "messages[0].tool_call_id is missing"),
    (says(role="assistant", tool_calls=[{}]), "messages[0].tool_calls[0]", "has no function"),
    (says(content="x" * 5000), "messages", "messages has 5018 tokens, but the context of the model 'tiny' holds 1024"),
    (says(content="x" * 70000), "messages", "messages has 70050 letters, but the context of the model 'tiny' holds"),
    (chat(messages=USER * 1024), "messages", "messages has 1024 messages, but the context of the model 'tiny'"),
    (chat(temprature=1), "temprature", "temprature is no parameter that is known here"),
    (chat(temperature=3), "temperature", "temperature is 3, but it must be a number from 0 to 2"),
    (chat(temperature="1"), "temperature", 'temperature is "1", but it must be a number from 0 to 2'),
    (chat(temperature=True), "temperature", "temperature is true"),
    (chat(temperature=10**400), "temperature", "temperature is a number beyond 64 bits"),
    (chat(top_p=-0.1), "top_p", "top_p is -0.1, but it must be a number from 0 to 1"),
    (chat(top_k=1.5), "top_k", "top_k is 1.5, but it must be a whole number from -1"),
    (chat(min_p=2), "min_p", "min_p is 2"),
    (chat(seed=1 << 64), "seed", "seed is a number beyond 64 bits"),
    (chat(n=0), "n", "n is 0, but it must be a whole number from 1 to 16"),
    (chat(max_tokens=0), "max_tokens", "max_tokens is 0, but it must be a whole number from 1"),
    (chat(max_completion_tokens=3), "max_tokens", "max_tokens is 2, but max_completion_tokens is 3"),
    (chat(presence_penalty=3), "presence_penalty", "presence_penalty is 3, but it must be a number from -2 to 2"),
    (chat(frequency_penalty=None, repetition_penalty=0), "repetition_penalty", "repetition_penalty is 0"),
    (chat(logit_bias=[1]), "logit_bias", "logit_bias is a list of 1, but it must be an object"),
    (chat(logit_bias={"x": 1}), "logit_bias", 'logit_bias has "x", which is no token id'),
    (chat(logit_bias={"5": 101}), "logit_bias", "logit_bias of token 5 is 101"),
    (chat(logit_bias={"272": 1}), "logit_bias", "logit_bias has the token 272, but the model's vocabulary has 272"),
    (chat(stop=3), "stop", "stop is 3, but it must be text, or a list of up to 16 texts"),
    (chat(stop=["a", ""]), "stop", 'stop[1] is "", but it must be text of at least one letter'),
    (chat(stop=["a", "b" * 1025]), "stop", "stop[1] has 1025 letters, but it may have 1024"),
    (chat(logit_bias={str(n): 1 for n in range(1025)}), "logit_bias", "logit_bias has 1025 tokens, but it may have"),
    (chat(logprobs=1), "logprobs", "logprobs is 1, but it must be true or false"),
    (chat(top_logprobs=2), "top_logprobs", "top_logprobs can only be given with logprobs: true"),
    (chat(logprobs=True, top_logprobs=21), "top_logprobs", "top_logprobs is 21"),
    (chat(stream="yes"), "stream", 'stream is "yes", but it must be true or false'),
    (chat(stream_options={}), "stream_options", "stream_options can only be given with stream: true"),
    (chat(stream=True, stream_options={"x": 1}), "stream_options.x", "stream_options.x is no parameter"),
    (chat(modalities=["audio"]), "modalities", "modalities is a list of 1, but the model gives text alone"),
    (chat(response_format="json"), "response_format", 'response_format must be an object, but it is "json"'),
    (chat(response_format={"type": "xml"}), "response_format.type", "but it must be text or json_object or"),
    (chat(response_format={"type": "json_schema"}), "response_format.json_schema", "json_schema is missing"),
    (chat(response_format=SCHEMA), FORMAT, f"{FORMAT} cannot be used: "),
    (shaped({"type": "banana"}), FORMAT, f"{FORMAT} cannot be used: the type 'banana' is none of JSON's"),
    (shaped({"properties": 5}), FORMAT, f"{FORMAT} cannot be used: properties must be an object"),
    (shaped({"not": {}}), FORMAT, f'{FORMAT} cannot be used: what "not" asks for cannot be kept here'),
    (shaped({"pattern": "(a"}), FORMAT, f"{FORMAT} cannot be used: the pattern '(a' cannot be read: unclosed group"),
    (shaped({"$ref": "#"}), FORMAT, f"{FORMAT} cannot be used: no text can fit it"),
    (shaped({"$ref": "#/no"}), FORMAT, f"{FORMAT} cannot be used: it has no '/no', to which a $ref points"),
    (shaped({"type": "integer", "minimum": "a"}), FORMAT, 'cannot be used: minimum must be a number, but it is "a"'),
    (shaped({"type": "array", "minItems": 5, "maxItems": 2}), FORMAT, "no text can fit it: minItems (5) is greater"),
    (shaped({"enum": ["x"] * 5000}), "response_format", "response_format has 5001 values in its schemas, but"),
    (shaped({"const": "x" * 4097}), "response_format", "response_format has a text of 4097 letters in a"),
    (shaped({"x": [{"pattern": "x" * 1001}]}), "response_format", "response_format has a pattern of 1001 letters in a"),
    (shaped({"patternProperties": {"x" * 1001: {}}}), "response_format", "response_format has a pattern of 1001"),
    (chat(tools=[{"type": "web"}]), "tools[0]", 'tools[0] is of type "web", but it must be function'),
    (tool(), "tools[0].function.name", "tools[0].function.name is missing"),
    (tool(name="a b"), "tools[0].function.name", 'tools[0].function.name is "a b"'),
    (tool(name="a", parameters={"type": "array"}), "tools[0].function.parameters", "the JSON schema of an object"),
    (tool(name="a", parameters={"properties": 3}), WANTS, f"{WANTS} cannot be used: properties must be an object"),
    (tool(name="a", parameters={"properties": {"x": {"pattern": "["}}}), WANTS, f"{WANTS} cannot be used: the pattern"),
    (tool(name="a", parameters={"$ref": "#"}), WANTS, f"{WANTS} cannot be used: a $ref that comes"),
    (tool(name="a", parameters={"required": ["x"] * 5000}), "tools", "tools has 5002 values in its schemas, but there"),
    (tool(name="a", parameterz={}), "tools[0].function.parameterz", "parameterz is no parameter that is known here"),
    (chat(tools=[{**OTHER, "x": 1}]), "tools[0].x", "tools[0].x is no parameter that is known here"),
    (chat(tools=[OTHER], tool_choice={**OTHER, "x": 1}), "tool_choice.x", "tool_choice.x is no parameter"),
    (chat(tools=[OTHER], tool_choice={"type": "function", "function": {"name": "b", "x": 1}}), "tool_choice.function.x",
     "tool_choice.function.x is no parameter"),
    (chat(parallel_tool_calls=0), "parallel_tool_calls", "parallel_tool_calls is 0, but it must be true or false"),
    (chat(tool_choice="required"), "tool_choice", 'tool_choice is "required", but there are no tools'),
    ({**tool(name="a"), "tool_choice": "some"}, "tool_choice", "but it must be none, auto, required"),
    ({**tool(name="a"), "tool_choice": OTHER}, "tool_choice", 'names the function "b", which is not among the tools'),
]  # fmt: skip
COMPLETIONS = [
    ({"model": "tiny"}, "prompt", "prompt is missing"),
    ({"model": "tiny", "prompt": ""}, "prompt", "prompt has no tokens"),
    ({"model": "tiny", "prompt": [1, -1]}, "prompt", "prompt[1] is -1, but it must be a token id"),
    ({"model": "tiny", "prompt": [[1], [500]]}, "prompt[1]", "prompt[1] has the token 500, but"),
    ({"model": "tiny", "prompt": [1] * 1024}, "prompt", "prompt has 1024 tokens, but the context"),
    ({"model": "tiny", "prompt": ["a", "x" * 65537]}, "prompt[1]", "prompt[1] has 65537 letters, but the context"),
    ({"model": "tiny", "prompt": "a", "suffix": "b"}, "suffix", "suffix cannot be given"),
    ({"model": "tiny", "prompt": "a", "best_of": 3}, "best_of", "best_of is 3, but it must be as n, 1"),
    ({"model": "tiny", "prompt": ["a"] * 9, "n": 2}, "prompt", "are 18 answers, but one request may have 16"),
]  # fmt: skip
EMBEDDINGS = [
    ({"model": "words"}, "input", "input is missing"),
    ({"model": "words", "input": []}, "input", "input is [], but it must be a text"),
    ({"model": "words", "input": ["a", ""]}, "input[1]", "input[1] is an empty text, which has no vector"),
    ({"model": "words", "input": ["a"] * 2049}, "input", "input has 2049 texts, but one request may have 2048"),
    ({"model": "words", "input": "a " * 600}, "input", "tokens, but the model 'words' takes 512"),
    ({"model": "words", "input": "a" * 32769}, "input", "input has 32769 letters, but the model 'words' takes 512"),
    ({"model": "words", "input": [10**7]}, "input", "input has the token 10000000, but the model's"),
    ({"model": "words", "input": "a", "dimensions": 3}, "dimensions", "dimensions is 3, but vectors of 'words'"),
    ({"model": "words", "input": "a", "encoding_format": "hex"}, "encoding_format", 'encoding_format is "hex"'),
    ({"model": "tiny", "input": "a"}, "model", "the model 'tiny' writes text: it is for /v1/chat"),
]  # fmt: skip
WRONG = [(path, *row) for path, rows in ((CHAT, CHATS), (COMPLETE, COMPLETIONS), (EMBED, EMBEDDINGS)) for row in rows]


@pytest.mark.parametrize(("path", "body", "param", "sentence"), WRONG, ids=[row[3][:50] for row in WRONG])
def test_a_malformed_request_has_its_status_and_its_sentence(served, path, body, param, sentence):
    answer = served.post(path, body)
    error = answer.json["error"]
    assert error["param"] == param, error
    assert answer.status == (404 if error["code"] == "model_not_found" else 400)
    assert sentence in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    # No state of a library, no lines of a grammar that nobody has written.
    assert not {"\n", "<", ">", "|", "^"} & set(error["message"])
    assert len(error["message"]) < 500


def test_the_next_request_works(served):
    assert served.post(CHAT, chat()).status == 200


def test_what_a_function_says_of_itself_is_taken(served):
    function = {"name": "b", "description": "does it", "strict": True, "parameters": {"type": "object"}}
    asked = chat(tools=[{"type": "function", "function": function}], tool_choice=OTHER, parallel_tool_calls=False)
    assert served.post(CHAT, asked).status == 200


def test_best_of_as_many_as_are_wanted_is_no_choice(served):
    assert served.post(COMPLETE, {"model": "tiny", "prompt": "a", "n": 2, "best_of": 2, "max_tokens": 1}).status == 200


def test_what_is_null_is_as_good_as_absent(served):
    names = ("temperature", "top_p", "n", "stop", "tools", "tool_choice", "response_format", "seed", "logit_bias")
    assert served.post(CHAT, chat(**dict.fromkeys(names))).status == 200


def test_paths_and_methods_that_are_not_there(served):
    for path, status, sentence in (("/v1/nothing", 404, "there is no /v1/nothing here"),
                                   (CHAT, 405, f"{CHAT} does not take GET"),
                                   ("/v1/models/gpt", 404, 'there is no model "gpt" here')):  # fmt: skip
        answer = served.get(path)
        assert (answer.status, answer.json["error"]["message"]) == (status, sentence)


def test_a_body_of_another_type_is_refused_because_any_web_page_could_send_it(served):
    answer = served.post(CHAT, chat(), Content_Type="text/plain")
    assert (answer.status, "must be application/json" in answer.json["error"]["message"]) == (415, True)


def test_no_prompt_is_in_the_log(served):
    seen = len(served.logs)
    served.post(CHAT, chat(messages=[{"role": "user", "content": "unmistakable"}]))
    # The answer is there before its line.
    wait_for(lambda: any(line["event"] == "request" for line in served.logs[seen:]))
    lines = served.lines.getvalue()
    assert "unmistakable" not in lines
    assert all(json.loads(line)["time"] for line in lines.splitlines())
