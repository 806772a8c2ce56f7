"""A tiny chat model for the server's tests, from GGUF to its folder: random weights, with a few wires.

Words depend on all that came before. But where its template tells it of tools it calls one; after some letters it
writes a quotation mark, and after that a brace, so that its JSON comes to an end; and after a full stop it stops."""

from pathlib import Path

import gguf
import numpy as np

import nibble
from conformance.gguf_files import SPECIAL, TinyModel, byte_letters, vocabulary

CONTEXT, CHUNK = 1024, 64
TOOLS, BEGIN, END = "<|tools|>", "<tool_call>", "</tool_call>"
# Dimensions of the embedding that only the head reads.
_CALL, _QUOTE, _BRACE, _STOP, _ALWAYS = range(5)
TEMPLATE = (
    "{% if tools %}<|im_start|>system\nTools:{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}<|im_end|>\n"
    "{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if tools and messages[-1].role != 'tool' %}<|tools|>{% endif %}{% endif %}"
)


def endless(model: str = "tiny", **more) -> dict:
    """A chat that takes thousands of steps: each of its answers goes on until the context is full."""
    letter = vocabulary()[0].index("z")
    chat = {"messages": [{"role": "user", "content": "a tale"}], "n": 16}
    return {"model": model, **chat, "temperature": 0, "logit_bias": {str(letter): 100}, **more}


def make(folder: Path, name: str = "tiny", **keys: str) -> Path:
    """Once: what is there already is left as it is. keys: others of the file, such as chat_template."""
    folder.mkdir(parents=True, exist_ok=True)
    file = TinyModel(is_tied=False).write(folder / f"{name}.gguf", lambda writer: _change(writer, keys))
    return nibble.import_gguf(file, folder / name, context_length=CONTEXT, chunk=CHUNK).folder


def _change(writer: gguf.GGUFWriter, keys: dict[str, str]) -> list[str]:
    tokens, merges = vocabulary()
    tokens += [TOOLS, BEGIN, END]
    kinds = [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL) - 3) + [3, 4, 4]
    arrays = {"tokens": tokens, "token_type": kinds, "merges": merges}
    for key, values in arrays.items():
        writer.add_array(f"tokenizer.ggml.{key}", values)
    writer.add_uint32("llama.context_length", CONTEXT)
    writer.add_string("tokenizer.chat_template", keys.get("chat_template", TEMPLATE))
    tensors = _tensors(tokens)
    for key, values in tensors.items():
        writer.add_tensor(key, values)
    taken = [*(f"tokenizer.ggml.{key}" for key in arrays), "llama.context_length", "tokenizer.chat_template"]
    return [*taken, *tensors]


def _tensors(tokens: list[str]) -> dict[str, np.ndarray]:
    place = {token: number for number, token in enumerate(tokens)}
    special = [*range(len(SPECIAL)), place[TOOLS], place[BEGIN], place[END]]
    letters = [place[token] for token in tokens if token.isascii() and len(token) < 4 and token not in '"}.!?']
    found = {}
    for key, values in TinyModel(is_tied=False).tensors().items():
        if key in ("token_embd.weight", "output.weight"):
            found[key] = np.concatenate([values, np.zeros((3, values.shape[1]), np.float32)])
            found[key][:, : _ALWAYS + 1] = 0
        elif "attn_output" in key or "ffn_down" in key:
            found[key] = values.copy()
            found[key][: _ALWAYS + 1] = 0
    embedding, head = found["token_embd.weight"], found["output.weight"]
    embedding[:, _ALWAYS] = 0.1
    embedding[place[TOOLS], _CALL] = 2
    embedding[letters[::2], _QUOTE] = 0.5
    embedding[place['"'], _BRACE] = 0.5
    embedding[[place[mark] for mark in (".", "!", "?", END)], _STOP] = 2
    silent = [*(place[letter] for code, letter in enumerate(byte_letters()) if not 32 <= code < 127), *special]
    head[silent] = 0
    for token, wire in ((BEGIN, _CALL), ('"', _QUOTE), ("}", _BRACE), ("<|im_end|>", _STOP)):
        head[place[token], wire] = 8
    head[special, _ALWAYS] = -20
    return found
