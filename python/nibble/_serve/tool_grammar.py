"""The grammar of an answer that may, or must, call tools; as llguidance reads it (Lark)."""

import json
import re
from collections.abc import Mapping
from typing import Any

from .tool_style import ToolStyle
from .tools import ToolUse

# Separators as models see them in training, and no room for endless spaces.
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def tool_grammar(use: ToolUse, style: ToolStyle, special: Mapping[str, int], schema: Any = None) -> str:
    """special: the ids of tokens that are no text, by name. schema: what an answer without calls must look like."""

    def literal(text: str) -> str:
        names = [name for name in special if name in text]
        parts = re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text]
        return " ".join(f"<[{special[part]}]>" if part in special else json.dumps(part) for part in parts if part)

    rules = ["%llguidance {}", "TEXT: /(.|\\n)*/"]
    for place, tool in enumerate(use.tools):
        body = json.dumps({**tool.parameters, "x-guidance": _LAYOUT})
        rules.append(f'call_{place}: {json.dumps(style.head(tool.name))} arguments_{place} "}}"')
        rules.append(f"arguments_{place}: %json {body}")
    rules.append("call: " + " | ".join(f"call_{place}" for place in range(len(use.tools))))
    more = f" ({literal(style.between)} call)*" if style.between and use.is_parallel else ""
    rules.append(f"calls: call{more} {literal(style.closing)}")
    rules.append(f"opened: {literal(style.opening)} calls")
    rules += ["start: opened"] if use.is_required else _free(style, special, literal, schema)
    return "\n".join(rules) + "\n"


def _free(style: ToolStyle, special: Mapping[str, int], literal, schema: Any) -> list[str]:
    """Calls, or something else."""
    if schema is not None:
        # Where calls are plain JSON, nothing tells them from an answer that is JSON too.
        calls = " | opened" if style.opening else ""
        return [f"answer: %json {json.dumps(schema)}", f"start: answer{calls}"]
    if not style.opening:
        return ["PLAIN: /([^{](.|\\n)*)?/", "start: PLAIN | opened"]
    if style.trigger in special:
        # Its letters alone would look like a call, but are no such token.
        return [f"WORDS: /(.|\\n)*/ & ~/(.|\\n)*{re.escape(style.trigger)}(.|\\n)*/", "start: WORDS | WORDS opened"]
    # The first place where the trigger stands ends the text.
    rest = literal(style.opening.removeprefix(style.trigger))
    return [f"lead[lazy]: TEXT {json.dumps(style.trigger)}", f"start: TEXT | lead {rest} calls"]
