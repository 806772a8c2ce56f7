"""What Nibble's library says of operators: which there are, and whether one takes a node's types and shapes."""

import functools
import json
import math
from typing import Any

import torch
from executorch.backends.vulkan import utils
from executorch.exir.sym_util import eval_upper_bound

from ._native import lib

_NAMES = {torch.int64: "int32"}
_NAMES |= {t: str(t).removeprefix("torch.") for t in (torch.float32, torch.float16, torch.int32)}
_NAMES |= {t: str(t).removeprefix("torch.") for t in (torch.int8, torch.uint8, torch.bool)}


@functools.cache
def operators() -> frozenset[str]:
    """The names of Nibble's operators."""
    return frozenset(op["name"] for op in json.loads(lib.nibble_ops_json()))


def refusal(program: torch.export.ExportedProgram, node: torch.fx.Node, name: str) -> str:
    """Why Nibble cannot run an operator on a node's arguments, or nothing. Its planner is asked about this node."""
    schema = node.target._schema
    if schema.is_mutable:  # its state is known only in the whole program
        return ""
    given = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False)) | node.kwargs
    arguments = [_written(program, given.get(a.name, a.default_value)) for a in schema.arguments]
    out = _described(node.meta.get("val"))
    return _ask(json.dumps({"op": name, "arguments": arguments, "out": out}))


@functools.lru_cache(4096)
def _ask(node: str) -> str:
    return "" if lib.nibble_check_node(node.encode()) else lib.nibble_error().decode()


def _written(program: torch.export.ExportedProgram, value: Any) -> Any:
    """An argument as the exporter writes it."""
    if isinstance(value, torch.fx.Node):
        constant = utils.is_param_node(program, value) and not utils.is_mutable_buffer_node(value, program)
        return _described(value.meta.get("val"), constant)
    if isinstance(value, list | tuple):
        return [_written(program, item) for item in value]
    if isinstance(value, float):
        # JSON has no others; which number it is does not matter.
        return value if math.isfinite(value) else math.copysign(1e300, value)
    return value if isinstance(value, bool | int | str) else None


def _described(value: Any, constant: bool = False) -> Any:
    if isinstance(value, torch.Tensor):
        fixed = all(isinstance(size, int) for size in value.shape)
        shape = [eval_upper_bound(size) for size in value.shape]
        return {"dtype": _NAMES[value.dtype], "shape": shape, "constant": constant, "fixed": fixed}
    if isinstance(value, list | tuple):
        return [_described(item) for item in value]
    return {}  # a number that is known only in a call
