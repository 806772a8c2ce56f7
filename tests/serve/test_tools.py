"""Calls of tools: grammars and styles by themselves, and calls over HTTP."""

import json

import pytest

from nibble._serve.chat_prompt import chat_prompt
from nibble._serve.tool_grammar import tool_grammar
from nibble._serve.tool_style import BARE, LIST, TAGS, style_of
from nibble._serve.tool_text import CallBegins, CallGoesOn, ToolText, Words
from nibble._serve.tools import Tool, ToolUse

CHAT = "/v1/chat/completions"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NESTED = {
    "type": "object",
    "properties": {"at": {"$ref": "#/$defs/at"}},
    "required": ["at"],
    "additionalProperties": False,
    "$defs": {"at": {"enum": ["home", "{\"}"]}},
}  # fmt: skip
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
LIGHT = {"type": "function", "function": {"name": "light", "parameters": NESTED}}
USE = ToolUse((Tool("get_weather", CITY, WEATHER), Tool("light", NESTED, LIGHT)), False, True)
ONE, TWO = '{"city": "a}\\"{"}', '{"at": "home"}'


def written(style) -> str:
    calls = [f"{style.head('get_weather')}{ONE}}}", f"{style.head('light')}{TWO}}}"]
    return style.opening + (style.between.join(calls) if style.between else calls[0]) + style.closing


def is_taken(grammar: str, served, *texts: str) -> bool:
    """Whether a grammar takes a whole text, token by token. No token is of two texts."""
    from nibble._text.constraint import Constraint, grammar_of

    model = served.text().model
    constraint = Constraint(model.vocabulary(), *grammar_of(grammar=grammar))
    for token in [token for text in texts for token in model.tokenizer.encode(text)]:
        if not constraint.allowed()[token // 32] >> (token % 32) & 1:
            return False
        constraint.take(token)
    return bool(constraint.allowed()[model.stop_ids[-1] // 32] >> (model.stop_ids[-1] % 32) & 1)


@pytest.mark.parametrize("style", [TAGS, LIST, BARE], ids=["tags", "list", "bare"])
def test_a_grammar_takes_calls_and_words_and_nothing_else(served, style):
    special = served.text().model.vocabulary().special_ids
    free = tool_grammar(USE, style, special)
    forced = tool_grammar(ToolUse(USE.tools, True, True), style, special)
    calls = written(style)
    assert is_taken(free, served, calls)
    assert is_taken(forced, served, calls)
    assert is_taken(free, served, "just words")
    assert not is_taken(forced, served, "just words")
    assert not is_taken(forced, served, calls.replace("light", "night").replace("weather", "whether"))
    if style.between:
        single = tool_grammar(ToolUse(USE.tools, True, False), style, special)
        assert not is_taken(single, served, calls)
        assert is_taken(free, served, f"words, then {calls}")
    shaped = tool_grammar(USE, style, special, {"type": "object", "properties": {"x": {"const": 1}}})
    assert is_taken(shaped, served, '{"x": 1}')
    assert not is_taken(shaped, served, "just words")


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("style", [TAGS, LIST, BARE], ids=["tags", "list", "bare"])
def test_text_is_taken_apart_however_it_is_cut(style, step):
    text = ("" if style is BARE else "I say [TOOL < x: ") + written(style)
    reader, parts = ToolText(style, ["get_weather", "light"]), []
    for at in range(0, len(text), step):
        parts += reader.push(text[at : at + step])
    parts += reader.finish()
    said = "".join(part.text for part in parts if isinstance(part, Words))
    assert said == ("" if style is BARE else "I say [TOOL < x: ")
    names = [part.name for part in parts if isinstance(part, CallBegins)]
    assert names == (["get_weather"] if style is BARE else ["get_weather", "light"])
    wanted = ONE if style is BARE else ONE + TWO
    assert "".join(part.arguments for part in parts if isinstance(part, CallGoesOn)) == wanted


def test_what_may_become_a_call_is_held_back_and_what_is_none_is_handed_out():
    reader = ToolText(TAGS, ["f"])
    assert reader.push("a <tool") == [Words("a ")]
    assert reader.push("box> <") == [Words("<toolbox> ")]
    assert reader.finish() == [Words("<")]
    bare = ToolText(BARE, ["f"])
    assert [*bare.push("no {"), *bare.push("}")] == [Words("no {"), Words("}")]


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("style", [TAGS, LIST, BARE], ids=["tags", "list", "bare"])
def test_no_word_of_an_answer_is_lost(style, step):
    """Whatever looks like a call: in an answer that has a format, in words, or in what was cut off."""

    def read(text, is_shaped):
        reader, parts = ToolText(style, ["get_weather", "light"], is_shaped), []
        for at in range(0, len(text), step):
            parts += reader.push(text[at : at + step])
        return [*parts, *reader.finish()]

    shaped = json.dumps({"a": f"{style.trigger} x", "b": style.opening + style.head("light")})
    cut = style.opening + style.head("light")[:-3]
    for text, is_shaped in ((shaped, True), (f"I say {style.trigger} and {style.trigger}", False), (cut, False)):
        parts = read(text, is_shaped)
        assert all(isinstance(part, Words) for part in parts)
        assert "".join(part.text for part in parts) == text
    if style.opening:
        words, call, *_ = read(f"{style.trigger}{written(style)}", False)
        assert (words, call) == (Words(style.trigger), CallBegins("get_weather"))
        assert CallBegins("light") in read(written(style), True)


def test_free_words_do_not_spell_what_calls_begin_with(served):
    special = served.text().model.vocabulary().special_ids
    for given in (special, {}, {**special, TAGS.trigger: 1}):
        grammar = tool_grammar(USE, TAGS, given)
        assert is_taken(grammar, served, "a <tool", "box>")
        assert not is_taken(grammar, served, "a <tool", "_call> b")


def test_styles_are_those_of_the_templates():
    assert style_of("{{ tools }} <tool_call>") is TAGS
    assert style_of("{% if tools %}[TOOL_CALLS]") is LIST
    assert style_of('{{ tools }} {"name": …, "parameters": …}') is BARE
    assert style_of("no word of any") is TAGS


def test_a_template_without_tools_is_told_of_them_in_words():
    call = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "rain", "tool_call_id": "1"},
    ]
    told, variables = chat_prompt("{{ messages }}", messages, USE)
    assert variables == {}
    assert [message["role"] for message in told] == ["system", "assistant", "user"]
    assert told[0]["content"].startswith("be brief\n\nYou may call functions.")
    assert json.dumps(WEATHER) in told[0]["content"]
    assert told[1]["content"] == f"<tool_call>\n{TAGS.head('get_weather')}" + '{"city": "Paris"}}\n</tool_call>'
    assert told[2]["content"] == "<tool_response>\nrain\n</tool_response>"
    kept, variables = chat_prompt("{{ tools }} developer", messages, USE)
    assert (kept, variables) == (messages, {"tools": [WEATHER, LIGHT]})


def ask(served, **more):
    asked = {"messages": [{"role": "user", "content": "Is it raining?"}], "tools": [WEATHER], **more}
    return served.post(CHAT, {"model": "tiny", "temperature": 0, "max_tokens": 200, **asked})


def test_a_model_that_wants_to_call_a_tool_does(served):
    choice = ask(served).json["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert (call["type"], call["function"]["name"]) == ("function", "get_weather")
    assert isinstance(json.loads(call["function"]["arguments"])["city"], str)


def test_calls_are_streamed_piece_by_piece(served):
    whole = ask(served).json["choices"][0]["message"]["tool_calls"][0]["function"]
    chunks = ask(served, stream=True).chunks
    deltas = [one["choices"][0]["delta"] for one in chunks]
    parts = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert parts[0]["id"].startswith("call_")
    assert parts[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert "".join(part["function"]["arguments"] for part in parts) == whole["arguments"]
    assert len(parts) > 3
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_tool_that_is_chosen_is_called_and_none_is_none(served):
    light = {"type": "function", "function": {"name": "light"}}
    choice = ask(served, tools=[WEATHER, LIGHT], tool_choice=light, parallel_tool_calls=False).json["choices"][0]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["light"]
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["at"] in ("home", '{"}')
    plain = ask(served, tool_choice="none", max_tokens=8).json["choices"][0]
    assert "tool_calls" not in plain["message"]
    assert plain["message"]["content"]
    forced = ask(served, tool_choice="required").json["choices"][0]
    assert forced["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


def test_what_a_tool_said_goes_back_to_the_model(served):
    call = ask(served).json["choices"][0]["message"]
    back = [{"role": "user", "content": "Is it raining?"}, call,
            {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "yes"}]  # fmt: skip
    answer = ask(served, messages=back, max_tokens=10).json["choices"][0]
    assert answer["message"]["content"]
    assert "tool_calls" not in answer["message"]
