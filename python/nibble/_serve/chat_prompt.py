"""A chat as a model's template wants it: roles that it knows, and tools where it does not know any."""

import json
from collections.abc import Sequence
from typing import Any

from .tool_style import TAGS, ToolStyle, takes_tools
from .tools import ToolUse

_TOOLS = """You may call functions. They are described here, each by a JSON object in a line:
<tools>
{tools}
</tools>
To call one, answer with its name and arguments as a JSON object between tags:
<tool_call>
{{"name": <name>, "arguments": <object>}}
</tool_call>"""


def chat_prompt(template: str, messages: list[dict], use: ToolUse | None) -> tuple[list[dict], dict[str, Any]]:
    """Messages, and what else the template is given."""
    if "developer" not in template:
        messages = [{**one, "role": "system"} if one["role"] == "developer" else one for one in messages]
    described = [tool.described for tool in use.tools] if use else []
    if takes_tools(template):
        return messages, {"tools": described} if described else {}
    messages = [_without_tools(one, TAGS) for one in messages]
    return (_with_description(messages, described) if described else messages), {}


def _without_tools(message: dict, style: ToolStyle) -> dict:
    """Calls and what came of them, as text."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
    if calls := message.get("tool_calls"):
        texts = [f"{style.head(call['function']['name'])}{_json(call['function']['arguments'])}}}" for call in calls]
        written = style.opening + style.between.join(texts) + style.closing
        return {"role": "assistant", "content": "\n".join(filter(None, (message["content"], written)))}
    return message


def _with_description(messages: Sequence[dict], described: list[dict]) -> list[dict]:
    text = _TOOLS.format(tools="\n".join(map(_json, described)))
    if messages[0]["role"] == "system":
        return [{**messages[0], "content": f"{messages[0]['content']}\n\n{text}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
