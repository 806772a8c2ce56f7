"""Tools that a model may call: what a request says of them."""

import json
import re
from dataclasses import dataclass
from typing import Any

from .errors import wrong
from .fields import Fields, shown
from .schema_limits import check_schemas

MOST_TOOLS = 128


@dataclass(frozen=True)
class Tool:
    name: str
    parameters: dict  # a JSON schema of an object
    described: dict  # as the request has it, for the chat template


@dataclass(frozen=True)
class ToolUse:
    """Which tools may be called, whether one must be, and whether several may be at once."""

    tools: tuple[Tool, ...]
    is_required: bool
    is_parallel: bool


def tools_of(fields: Fields) -> ToolUse | None:
    """None: the model is told of no tools."""
    given = fields.items("tools") or []
    if len(given) > MOST_TOOLS:
        raise wrong("tools", f"tools has {len(given)} tools, but there may be {MOST_TOOLS} at most")
    tools = tuple(_tool(value, f"tools[{place}]") for place, value in enumerate(given))
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise wrong("tools", f"tools has {names.count(name)} functions of the name {shown(name)}")
    check_schemas("tools", [tool.parameters for tool in tools])
    choice = fields.take("tool_choice")
    is_parallel = fields.take("parallel_tool_calls") is None or fields.flag("parallel_tool_calls")
    wanted, is_required = _chosen(choice, tools)
    return ToolUse(wanted, is_required, is_parallel) if wanted else None


def _tool(value: Any, where: str) -> Tool:
    fields = Fields(value, where)
    kind = fields.take("type")
    if kind != "function":
        raise wrong(where, f"{where} is of type {shown(kind)}, but it must be function")
    function = fields.fields("function")
    if function is None:
        raise wrong(where, f"{where} has no function")
    name = function.needed_text("name")
    if not re.fullmatch(r"[\w.-]{1,64}", name, re.ASCII):
        message = f"{where}.function.name is {shown(name)}, but it must be 1 to 64 letters, digits, dots, _ and -"
        raise wrong(f"{where}.function.name", message)
    schema = function.take("parameters")
    if schema is None:
        schema = {"type": "object", "properties": {}}
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        message = f"{where}.function.parameters must be the JSON schema of an object, but it is {shown(schema)}"
        raise wrong(f"{where}.function.parameters", message)
    function.ignore(("description", "strict"))
    function.finish()
    fields.finish()
    _check_texts(where, value)
    return Tool(name, {"type": "object", **schema}, value)


def _check_texts(where: str, described: Any) -> None:
    """All of them come into the prompt."""
    try:
        json.dumps(described, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise wrong(where, f"{where} has half of a character, which is no text") from None


def _chosen(choice: Any, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], bool]:
    if choice is None or choice == "auto":
        return tools, False
    if choice == "none":
        return (), False
    if not tools:
        raise wrong("tool_choice", f"tool_choice is {shown(choice)}, but there are no tools")
    if choice == "required":
        return tools, True
    fields = Fields(choice, "tool_choice") if isinstance(choice, dict) else None
    function = fields.fields("function") if fields and fields.take("type") == "function" else None
    if function is None:
        wanted = "none, auto, required or an object that names a function"
        raise wrong("tool_choice", f"tool_choice is {shown(choice)}, but it must be {wanted}")
    name = function.needed_text("name")
    function.finish()
    fields.finish()
    found = tuple(tool for tool in tools if tool.name == name)
    if not found:
        raise wrong("tool_choice", f"tool_choice names the function {shown(name)}, which is not among the tools")
    return found, True
