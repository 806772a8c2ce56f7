"""The answer to texts that are to be vectors."""

import base64

import numpy as np

from .embedding_request import EmbeddingRequest
from .json_text import as_json


def embedding_answer(wanted: EmbeddingRequest, tokens: int, vectors: np.ndarray) -> bytes:
    """As JSON. There may be thousands of vectors: this is no work for the event loop. Each is written by itself, so
    that other threads have their turn between any two."""

    def written(vector: np.ndarray) -> str | list[float]:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode() if wanted.is_base64 else vector.tolist()

    rows = [
        as_json({"object": "embedding", "index": place, "embedding": written(one)}) for place, one in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    rest = as_json({"model": wanted.model, "usage": usage})
    return b'{"object":"list","data":[' + b",".join(rows) + b"]," + rest[1:]
