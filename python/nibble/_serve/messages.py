"""The messages of a chat, checked, and as chat templates want them."""

import json
from typing import Any

from .errors import wrong
from .fields import Fields, checked_text, shown

ROLES = ("system", "developer", "user", "assistant", "tool")


def messages_of(fields: Fields) -> list[dict]:
    given = fields.items("messages")
    if not given:
        what = "missing" if given is None else "empty"
        raise wrong("messages", f"messages is {what}, but a chat needs at least one message")
    return [_message(message, f"messages[{place}]") for place, message in enumerate(given)]


def _message(value: Any, where: str) -> dict:
    # What else is in a message is left alone: clients send back what servers of all kinds gave them.
    fields = Fields(value, where)
    role = fields.choice("role", ROLES)
    if role is None:
        raise wrong(fields.name("role"), f"{where} has no role, which must be one of {', '.join(ROLES)}")
    calls = _calls(fields) if role == "assistant" else []
    content = _content(fields, is_needed=not calls)
    message = {"role": role, "content": content}
    if calls:
        message["tool_calls"] = calls
    if role == "tool":
        message["tool_call_id"] = fields.needed_text("tool_call_id")
    if name := fields.text("name"):
        message["name"] = name
    return message


def _content(fields: Fields, is_needed: bool) -> str:
    value, name = fields.take("content"), fields.name("content")
    if value is None and not is_needed:
        return ""
    if isinstance(value, str):
        return checked_text(name, value)
    if not isinstance(value, list):
        raise wrong(name, f"{name} is {shown(value)}, but it must be text or a list of parts")
    texts = []
    for place, part in enumerate(value):
        where = f"{name}[{place}]"
        piece = Fields(part, where)
        kind = piece.take("type")
        if kind not in ("text", "refusal"):
            raise wrong(where, f"{where} is of type {shown(kind)}, but the model takes text alone")
        text = piece.text(kind)
        if text is None:
            raise wrong(where, f"{where} has no {kind}")
        texts.append(text)
    return "".join(texts)


def _calls(fields: Fields) -> list[dict]:
    """Templates want arguments as an object, where the protocol has them as its JSON."""
    calls = []
    for place, value in enumerate(fields.items("tool_calls") or ()):
        where = f"{fields.name('tool_calls')}[{place}]"
        call = Fields(value, where)
        function = call.fields("function")
        if function is None:
            raise wrong(where, f"{where} has no function")
        name, arguments = function.needed_text("name"), function.text("arguments") or "{}"
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = arguments
        calls.append({"id": call.text("id"), "type": "function", "function": {"name": name, "arguments": parsed}})
    return calls
