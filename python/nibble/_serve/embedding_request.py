"""POST /v1/embeddings: texts as vectors."""

from dataclasses import dataclass
from typing import Any

from .completion_request import texts_or_tokens
from .errors import wrong
from .fields import Fields

MOST_INPUTS = 2048


@dataclass(frozen=True)
class EmbeddingRequest:
    model: str
    inputs: list[str | list[int]]
    is_base64: bool
    dimensions: int | None


def embedding_request(body: Any) -> EmbeddingRequest:
    fields = Fields(body)
    inputs = texts_or_tokens("input", fields.take("input"))
    if len(inputs) > MOST_INPUTS:
        raise wrong("input", f"input has {len(inputs)} texts, but one request may have {MOST_INPUTS}")
    for place, one in enumerate(inputs):
        if not one:
            name = "input" if len(inputs) == 1 else f"input[{place}]"
            raise wrong(name, f"{name} is an empty text, which has no vector")
    request = EmbeddingRequest(
        model=fields.needed_text("model"),
        inputs=inputs,
        is_base64=fields.choice("encoding_format", ("float", "base64")) == "base64",
        dimensions=fields.whole("dimensions", 1, 1 << 20),
    )
    fields.ignore(("user",))
    fields.finish()
    return request
