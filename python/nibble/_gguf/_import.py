"""From a GGUF file to a program."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._cache import alone
from .._native import NibbleError
from .._quiet import quiet
from . import _folder

_DEFAULT_CONTEXT = 2048
# The exporter holds the caches, too. What a session may take on the GPU is bounded by the options of load().
_MOST_CACHE_BYTES = 4 << 30


@dataclass(frozen=True)
class Imported:
    """An imported model. `facts` is what generation.json holds."""

    folder: Path
    program: Path
    tokenizer: Path
    facts: dict[str, Any]
    was_there: bool


def import_gguf(
    path: str | os.PathLike,
    out: str | os.PathLike | None = None,
    *,
    context_length: int | None = None,
    chunk: int = 128,
    full_logits: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> Imported:
    """Makes a program of a GGUF file of the architectures llama and qwen2.

    out: a folder, which is made; or the program's file (.pte). tokenizer.json and generation.json come to lie beside
        it. If they are there already, from the same content, options and versions, nothing is done. By default a folder
        in $NIBBLE_CACHE (~/.cache/nibble), whose name is a hash of these.
    context_length: how many tokens the caches hold; by default what the model was made for, but at most 2048.
    chunk: the most tokens of one call.
    full_logits: the program gives the logits of all tokens of a call, not of the last: to measure, not to generate.
    progress: is called with what is done next, and with the share of the whole that is behind, from 0 to 1.

    The weights of Q4_0, Q4_1 and Q4_K are those of the file, exactly. Others are dequantized and rounded to 8 bits, one
    step per row; the embedding is the sum of two 4-bit tables.
    """
    tell = progress or (lambda what, share: None)
    for name, value, least in (("context_length", context_length, 2), ("chunk", chunk, 2)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise ValueError(f"{name} must be a whole number from {least} on, but it is {value!r}.")
    try:
        with quiet():
            from ._read import Gguf
            from ._shape import read_shape
            from ._tokenizer import read_text
    except ImportError as error:
        raise _missing(error) from None

    tell("reading", 0.0)
    file = Gguf(path)
    shape = read_shape(file)
    if context_length is not None and context_length > shape.context:
        raise file.refuse(
            f"its context length is {shape.context}, but {context_length} is asked for", "invalid_argument"
        )
    context = context_length or min(shape.context, _DEFAULT_CONTEXT)
    if context < 2:
        raise file.refuse(f"its context length is {context}")
    caches = 8 * context * shape.layers * shape.kv_heads * shape.head
    if caches > _MOST_CACHE_BYTES:
        raise file.refuse(
            f"the caches of {context} tokens take {caches} bytes, but {_MOST_CACHE_BYTES} is the most: ask for a "
            "shorter context",
            "invalid_argument",
        )
    chunk = min(chunk, context)
    if out is not None:
        folder, program = _folder.places(out)
        _folder.check_alone(folder, program)
        if not (folder / _folder.FACTS).exists():
            # What cannot be written is told before the file is read as a whole, which may take long.
            with _folder.made(folder, program):
                pass
    options = {"context_length": context, "chunk": chunk, "full_logits": full_logits}
    source = {"sha256": file.sha256(), "types": file.types()}
    made_from = {"format": _folder.FORMAT, "source": source, "options": options}
    try:
        made_from["versions"] = _folder.versions()
    except ImportError as error:
        raise _missing(error) from None
    if out is None:
        folder, program = _folder.kept(made_from)
    made_from["program"] = program
    facts = _folder.found(folder, made_from)
    was_there = facts is not None
    if not was_there:
        with alone(folder) if out is None else contextlib.nullcontext():
            # Another process may have made it meanwhile.
            facts = _folder.found(folder, made_from)
            was_there = facts is not None
            if not was_there:
                facts = _write(file, shape, read_text(file), folder, made_from, tell)
                tell("done", 1.0)
    return Imported(folder, folder / program, folder / _folder.TOKENIZER, facts, was_there)


def _write(
    file, shape, text, folder: Path, made_from: dict[str, Any], tell: Callable[[str, float], None]
) -> dict[str, Any]:
    """Makes all files; gives what generation.json holds."""
    options = made_from["options"]
    with _folder.made(folder, made_from["program"]):
        exported, quantization = _make(file, shape, text, options, tell)
        facts = {
            **made_from,
            "file": file.path.name,
            "name": file.get("general.name", str, file.path.stem),
            "architecture": shape.architecture,
            "context_length": options["context_length"],
            "chunk": options["chunk"],
            "vocabulary": shape.vocabulary,
            "bos_id": text.bos_id,
            "eos_id": text.eos_id,
            "add_bos": text.add_bos,
            "stop_ids": text.stop_ids,
            "chat_template": text.chat_template,
            "quantization": quantization,
            "nibble": made_from["versions"]["nibble"],
        }
        tell("writing", 0.97)
        return _folder.write(folder, facts, text.json, exported.save)


def _make(file, shape, text, options: dict[str, Any], tell: Callable[[str, float], None]):
    """Exports the program; gives it and what was done to each kind of tensor."""
    from ._weights import Weights

    weights = Weights(file, shape)
    layers = []
    for number in range(shape.layers):
        tell(f"layer {number + 1} of {shape.layers}", 0.02 + 0.05 * number / shape.layers)
        layers.append(weights.layer(number))
    tell("embedding and head", 0.07)
    tables, norm, head = weights.tables(), weights.norm("output_norm"), weights.head()
    file.refuse_unread()
    # What is wrong with a file is known by now: the exporter alone takes seconds to load.
    tell("loading the exporter", 0.1)
    try:
        with quiet():
            import torch

            from .._export import export
            from ._model import Model
    except ImportError as error:
        raise _missing(error) from None

    model = Model(shape, options["context_length"], tables, layers, norm, head)
    model.full_logits = options["full_logits"]
    length = torch.export.Dim("length", min=1, max=options["chunk"])
    example = torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    exported = export(
        model,
        example,
        ({1: length}, None),
        constant_methods=_constants(shape, text, options),
        progress=lambda what, share: tell(what, 0.2 + 0.77 * share),
    )
    if exported.not_delegated:
        raise NibbleError(f"the exporter left these out: {'; '.join(exported.not_delegated)}", "unsupported")
    return exported, weights.done


def _constants(shape, text, options: dict[str, Any]) -> dict[str, Any]:
    """What runners of language models ask a program for."""
    return {
        "get_max_seq_len": options["chunk"],
        "get_max_context_len": options["context_length"],
        "get_n_layers": shape.layers,
        "get_vocab_size": shape.vocabulary,
        "get_bos_id": text.bos_id if text.bos_id is not None else -1,
        "get_eos_ids": text.stop_ids,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": True,
        "enable_dynamic_shape": True,
    }


def _missing(error: ImportError) -> NibbleError:
    package = (error.name or "a package").split(".")[0]
    return NibbleError(f"importing GGUF needs '{package}': pip install 'nibble-runtime[import]'", "unsupported")
