"""POST /v1/chat/completions: what a request asks for. Nothing here knows a model."""

from dataclasses import dataclass, field
from typing import Any

from .errors import wrong
from .fields import Fields, shown
from .messages import messages_of
from .sampling import IGNORED, max_tokens_of, sampling_of, stream_of
from .schema_limits import check_schemas
from .tools import ToolUse, tools_of

MOST_LOGPROBS = 20


@dataclass(frozen=True)
class ChatRequest:
    model: str
    messages: list[dict]
    choices: int = 1
    max_tokens: int | None = None
    tools: ToolUse | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # of LanguageModel.prepare()
    json_schema: Any = None
    json_object: bool = False
    logprobs: int | None = None  # of how many others besides each token
    is_stream: bool = False
    wants_usage: bool = False


def chat_request(body: Any, most_choices: int) -> ChatRequest:
    fields = Fields(body)
    is_stream, wants_usage = stream_of(fields)
    schema, json_object = _format(fields)
    request = ChatRequest(
        model=fields.needed_text("model"),
        messages=messages_of(fields),
        choices=fields.whole("n", 1, most_choices) or 1,
        max_tokens=max_tokens_of(fields),
        tools=tools_of(fields),
        settings=sampling_of(fields),
        json_schema=schema,
        json_object=json_object,
        logprobs=_logprobs(fields),
        is_stream=is_stream,
        wants_usage=wants_usage,
    )
    if (modalities := fields.take("modalities")) not in (None, ["text"]):
        raise wrong("modalities", f"modalities is {shown(modalities)}, but the model gives text alone")
    fields.ignore(IGNORED)
    fields.finish()
    return request


def _logprobs(fields: Fields) -> int | None:
    wanted, top = fields.flag("logprobs"), fields.whole("top_logprobs", 0, MOST_LOGPROBS)
    if top and not wanted:
        raise wrong("top_logprobs", "top_logprobs can only be given with logprobs: true")
    return (top or 0) if wanted else None


def _format(fields: Fields) -> tuple[Any, bool]:
    """A JSON schema, and whether any object will do."""
    wanted = fields.fields("response_format")
    if wanted is None:
        return None, False
    kind = wanted.choice("type", ("text", "json_object", "json_schema"))
    if kind is None:
        raise wrong("response_format.type", "response_format.type is missing")
    schema = None
    if kind == "json_schema":
        described = wanted.fields("json_schema")
        if described is None:
            raise wrong("response_format.json_schema", "response_format.json_schema is missing")
        schema = described.take("schema")
        if not isinstance(schema, dict):
            name = described.name("schema")
            raise wrong(name, f"{name} is {shown(schema)}, but it must be a JSON schema")
        check_schemas("response_format", [schema])
        described.ignore(("name", "description", "strict"))
        described.finish()
    wanted.finish()
    return schema, kind == "json_object"
