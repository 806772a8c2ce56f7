"""Exports PyTorch modules with the stock exporter. torch and executorch are imported when they are needed."""

import contextlib
import functools
import operator
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ._files import check_writable, new_file
from ._interrupt import heard
from ._native import NibbleError
from ._quantize import quantize_q4
from ._quiet import quiet

if TYPE_CHECKING:
    import torch

# The steps of an export, and the share of its time that is behind when each begins, as with SmolLM2.
_STEPS = {"tracing": 0.0, "decomposing": 0.05, "partitioning": 0.6, "delegating": 0.65, "serializing": 0.95}


@dataclass(frozen=True)
class Exported:
    """An exported program. If `not_delegated` lists operators outside the delegate, only ExecuTorch can run it."""

    manager: Any = field(repr=False)
    not_delegated: list[str]

    @property
    def buffer(self) -> bytes:
        """The bytes of the .pte file."""
        return self.manager.buffer

    def save(self, path: str | os.PathLike) -> None:
        """Writes the .pte file completely, or not at all."""
        with new_file(path) as file:
            self.manager.write_to_file(file)


def export(
    module: "torch.nn.Module",
    example_inputs: tuple,
    dynamic_shapes: Any = None,
    path: str | os.PathLike | None = None,
    *,
    compile_options: dict[str, Any] | None = None,
    constant_methods: dict[str, Any] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Exported:
    """Exports a module for the GPU, with nibble.Partitioner, and warns of nodes that it leaves outside.

    dynamic_shapes: as torch.export takes them.
    path: where to write the .pte file, if anywhere.
    compile_options: the partitioner's, such as {"force_fp16": True}. Where the module changes a buffer,
        "alias_buffer_mutations" is True unless it is given: the program then keeps the buffer's value from call to
        call, and would be refused without. Caches that a custom op writes need no option.
    constant_methods: further methods that return a constant, such as {"get_vocab_size": 32000}.
    progress: is called with what is done next, and with the share of the whole that is behind, from 0 to 1.
    """
    # Fail before the export, which may take minutes.
    if path is not None:
        check_writable(path)

    def tell(step: str) -> None:
        if progress is not None:
            progress(step, _STEPS[step])

    with quiet(), heard():
        result = _export(module, example_inputs, dynamic_shapes, dict(compile_options or {}), constant_methods, tell)
    if result.not_delegated:
        warnings.warn(f"not delegated: {'; '.join(result.not_delegated)}", stacklevel=2)
    if path is not None:
        result.save(path)
    return result


def _export(
    module: "torch.nn.Module",
    example_inputs: tuple,
    dynamic_shapes: Any,
    options: dict[str, Any],
    constant_methods: dict[str, Any] | None,
    tell: Callable[[str], None],
) -> Exported:
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    from ._partition import Partitioner

    _keep_fusion_patterns()
    examples = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, tuple(example_inputs))
    with _in_plain_order(module):
        tell("tracing")
        exported = torch.export.export(module.eval(), examples, dynamic_shapes=dynamic_shapes)
        keeps_state = "alias_buffer_mutations" not in options and _changes_buffers(exported)
        if keeps_state:
            options["alias_buffer_mutations"] = True
        partitioner = Partitioner(options)
        partitioner.tell = tell
        edge = to_edge_transform_and_lower(
            exported,
            partitioner=[partitioner],
            # Nibble's 8-bit linear, which the exporter would refuse to leave in one piece.
            compile_config=EdgeCompileConfig(
                _core_aten_ops_exception_list=[torch.ops.aten._weight_int8pack_mm.default]
            ),
            constant_methods=constant_methods,
        )
        if keeps_state:
            _check_order_of_state(edge.exported_program().graph_module)
        outside = _not_delegated(edge.exported_program().graph, partitioner.outside)
        tell("serializing")
        return Exported(edge.to_executorch(), outside)


def export_embedding(
    table: "np.ndarray | torch.Tensor",
    group_size: int = 32,
    path: str | os.PathLike | None = None,
    *,
    reduce: str | None = None,
    max_length: int = 512,
    bits: int = 4,
) -> Exported:
    """Exports a float table [rows, width] as a 4-bit program from ids [1, n] to rows [1, n, width].

    table: an array, or a tensor of any float type, such as the weight of a torch.nn.Embedding.
    max_length: the largest n.
    reduce: with "mean" the program gives the mean of the rows, [1, 1, width].
    """
    with quiet():
        import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (registers et_vk)
        import torch

    if bits != 4:
        raise ValueError(f"A table can be exported with 4 bits, but not with {bits}.")
    if reduce not in (None, "mean"):
        raise ValueError(f"The rows can be reduced by 'mean' or not at all, but not by {reduce!r}.")
    if max_length < 2:
        raise ValueError(f"The largest number of ids must be at least 2, but it is {max_length}.")
    if isinstance(table, torch.Tensor):
        table = _as_array(table)
    packed, scales = quantize_q4(np.asarray(table), group_size)

    class Embedding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.from_numpy(packed))
            self.register_buffer("scales", torch.from_numpy(scales))

        def forward(self, ids):
            rows = torch.ops.et_vk.embedding_q4gsw.default(self.weight, self.scales, group_size, ids, True)
            return rows.mean(1, keepdim=True) if reduce == "mean" else rows

    length = torch.export.Dim("length", min=0, max=max_length)
    example = torch.zeros(1, min(8, max_length), dtype=torch.int64)
    return export(Embedding(), (example,), ({1: length},), path, constant_methods={"get_vocab_size": packed.shape[0]})


def _as_array(table: "torch.Tensor") -> np.ndarray:
    """Accepts parameters too, and tensors outside host memory. NumPy has no bfloat16, so it becomes float32."""
    import torch

    table = table.detach().cpu()
    return (table.float() if table.dtype == torch.bfloat16 else table).numpy()


@functools.cache
def _keep_fusion_patterns() -> None:
    """Makes the exporter build its fusion patterns once, not once per program: that would take most of its time."""
    import executorch.backends.vulkan.patterns  # noqa: F401  (fills the registry)
    from executorch.backends.vulkan.patterns.pattern_registry import fusable_patterns

    for entry in fusable_patterns.values():
        if entry.get_graphs_fn:
            entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)


@contextlib.contextmanager
def _in_plain_order(module: "torch.nn.Module") -> Iterator[None]:
    """Weights in another order of memory (channels last) would give outputs that order, which programs do not have."""
    others = [tensor for tensor in [*module.parameters(), *module.buffers()] if not tensor.is_contiguous()]
    stored = [tensor.data for tensor in others]
    try:
        for tensor in others:
            tensor.data = tensor.data.contiguous()
        yield
    finally:
        for tensor, data in zip(others, stored, strict=True):
            tensor.data = data


def _changes_buffers(exported: "torch.export.ExportedProgram") -> bool:
    """Whether torch's own operators write to a buffer. The program's signature says so only after decomposition."""
    import torch

    buffers = exported.graph_signature.inputs_to_buffers
    for node in exported.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or node.target.namespace != "aten" or not schema.is_mutable:
            continue
        # Writing to a view of a buffer writes to the buffer.
        source = node.args[0]
        while (
            isinstance(source, torch.fx.Node)
            and source.op == "call_function"
            and _gives_its_first_argument(source.target)
        ):
            source = source.args[0]
        if isinstance(source, torch.fx.Node) and source.name in buffers:
            return True
    return False


def _gives_its_first_argument(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    if schema is None:
        return target is operator.getitem
    return bool(schema.arguments) and schema.arguments[0].alias_info is not None


def _check_order_of_state(module: "torch.fx.GraphModule") -> None:
    """Refuses programs that read a buffer's old value after its new one is made: the exporter overwrites it at once."""
    from executorch.backends.vulkan._passes.remove_redundant_ops import RemoveRedundantOpsTransform
    from executorch.exir.lowered_backend_module import get_lowered_submodules

    for _, lowered, _ in get_lowered_submodules(module):
        program = lowered.original_module
        nodes = {node.name: node for node in program.graph.nodes}
        order = {node: i for i, node in enumerate(program.graph.nodes)}
        inputs = {buffer: name for name, buffer in program.graph_signature.inputs_to_buffers.items()}
        for name, buffer in program.graph_signature.buffers_to_mutate.items():
            if name not in nodes or inputs.get(buffer) not in nodes:
                continue
            # The exporter removes copies, so a reader of a copy reads the buffer itself.
            sources = [nodes[inputs[buffer]]]
            for source in sources:
                for user in source.users:
                    if user.target in RemoveRedundantOpsTransform.redundant_ops and user.name != name:
                        sources.append(user)
                    elif order[user] > order[nodes[name]]:
                        raise NibbleError(
                            f"buffer '{buffer}' is read by node {user.name} after node {name} has made its new value, "
                            "but the exporter keeps only one of them: read it before, or make the new value last",
                            "unsupported",
                        )


def _not_delegated(graph: "torch.fx.Graph", reasons: dict[str, str]) -> list[str]:
    """The operators outside the delegates, each with its node and the reason."""
    names = []
    for node in graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.op == "call_function" and name not in ("executorch_call_delegate", "getitem"):
            names.append(f"{name} (node {node.name}): {reasons.get(node.name, 'it is between delegates')}")
    return names
