"""The stock Vulkan partitioner, with the limits of Nibble in place of those of the Vulkan runtime."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import executorch.backends.vulkan.patterns as patterns
import torch
from executorch.backends.vulkan import op_registry, utils
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner, VulkanSupportedOperators
from executorch.backends.vulkan.vulkan_preprocess import VulkanBackend
from executorch.exir.backend.partitioner import PartitionResult
from executorch.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from executorch.exir.passes.replace_aten_with_edge_pass import aten_to_edge
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from ._registry import operators, refusal

aten = torch.ops.aten

# What tensors may be made of; the exporter stores int64 as int32.
_DTYPES = {torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool}
# The exporter removes these from a delegate, so that they need no kernel.
_REMOVED = {"getitem", "eq", "ge", "gt", "le", "lt", "aten.copy.default"}
_REMOVED |= {"_assert_scalar.default", "sym_constrain_range_for_size.default"}
# Forms with a number, and those with a tensor, which take a number too: the exporter makes a tensor of it.
_ALSO_OF_NUMBERS = {
    aten.add.Scalar: aten.add.Tensor,
    aten.sub.Scalar: aten.sub.Tensor,
    aten.mul.Scalar: aten.mul.Tensor,
    aten.div.Scalar: aten.div.Tensor,
    aten.div.Scalar_mode: aten.div.Tensor_mode,
}
# Here the exporter would leave the number as it is.
_OF_TENSORS_ALONE = {aten.fmod.Scalar: aten.fmod.Tensor, aten.remainder.Scalar: aten.remainder.Tensor}


class Partitioner(VulkanPartitioner):
    """Delegates every node that Nibble can run: more than the stock VulkanPartitioner, which knows another runtime.

    The delegates have the stock format and id. `outside` says why nodes of the last program were not delegated.
    """

    def __init__(self, compile_options: dict[str, Any] | None = None, **lists: Any):
        # Storage types and memory layouts mean nothing to Nibble, and cost copies.
        super().__init__({"skip_tag_memory_metadata": True, **(compile_options or {})}, **lists)
        self.outside: dict[str, str] = {}
        # Is told the next step of the export: the exporter itself tells nobody.
        self.tell: Callable[[str], None] = lambda step: None
        _teach_backend()

    def transform_for_pre_decomposition(self, exported_program):
        """Keeps attention in one piece, and gives operators on numbers the form that Nibble has."""
        self.tell("decomposing")
        graph = exported_program.graph_module.graph
        for node in list(graph.nodes):
            if node.target == aten.scaled_dot_product_attention.default:
                _keep_attention(graph, node)
            elif node.target in _ALSO_OF_NUMBERS:
                node.target = _ALSO_OF_NUMBERS[node.target]
                node.args, alpha = node.args[:2], node.args[2:]
                node.kwargs = {**node.kwargs, **dict(zip(("alpha",), alpha, strict=False))}
            elif node.target in _OF_TENSORS_ALONE:
                _take_tensors(graph, node)
        exported_program.graph_module.recompile()
        return exported_program

    def partition(self, exported_program) -> PartitionResult:
        self.tell("partitioning")
        module = exported_program.graph_module
        support = _Support(
            exported_program,
            utils.DEFAULT_TEXTURE_LIMITS,
            utils.DEFAULT_BUFFER_LIMIT,
            operator_blocklist=self.operator_blocklist,
            operator_allowlist=self.operator_allowlist,
            fusable_subgraphs=patterns.get_all_fusable_subgraphs(module),
            nn_module_blocklist=self.nn_module_blocklist,
            nn_module_allowlist=self.nn_module_allowlist,
        )
        parts = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True).propose_partitions()
        tags = {}
        for part in parts:
            tag = f"tag{part.id}"
            tags[tag] = self.delegation_spec
            for node in part.nodes:
                node.meta["delegation_tag"] = tag
        self.outside = support.reasons
        tag_constant_data(exported_program)
        tag_mutated_buffer(exported_program)
        self.tell("delegating")
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


class _Support(VulkanSupportedOperators):
    """The stock rules first, for what they know of the exporter's passes; then Nibble's."""

    def __init__(self, program, *arguments, **lists):
        super().__init__(*arguments, **lists)
        self.program = program
        self.reasons: dict[str, str] = {}

    def log_skip(self, node, reason: str) -> None:
        self.reasons[node.name] = reason

    def _is_node_supported(self, node) -> bool:
        taken = super()._is_node_supported(node)
        if node.op != "call_function" or node in self.fusable_nodes:
            return taken
        name = _written_name(node)
        if taken and name in _REMOVED:
            return True
        if reason := self._refusal(node, name):
            self.log_skip(node, reason)
            return False
        self.reasons.pop(node.name, None)
        return True

    def _refusal(self, node, name: str) -> str:
        """Why Nibble cannot run a node, or nothing."""
        if name not in operators():
            return f"Nibble does not have {name}"
        if node.target in self.operator_blocklist:
            return "it is in the blocklist"
        if self.operator_allowlist is not None and node.target not in self.operator_allowlist:
            return "it is not in the allowlist"
        for lists, what in ((self.nn_module_allowlist, True), (self.nn_module_blocklist, False)):
            if lists is not None and utils.node_comes_from_any_nn_module_in_set(node, lists) != what:
                return f"its module is {'not in the allowlist' if what else 'in the blocklist'}"
        for tensor in _tensors(node):
            if tensor.dtype not in _DTYPES:
                return f"{name} has a tensor of {str(tensor.dtype).removeprefix('torch.')}, which Nibble does not store"
        return refusal(self.program, node, name) if hasattr(node.target, "_schema") else ""


def _written_name(node) -> str:
    """The name of a node's operator in a program."""
    target = node.target
    if target in (torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2):
        target = node.args[0]
    name = getattr(target, "__name__", str(target))
    return f"aten.{name}" if _is_plain_aten(target) else name


def _is_plain_aten(target) -> bool:
    """Whether the exporter forgot to make this an operator of its edge dialect, as it does with scalar_tensor."""
    is_aten = isinstance(target, torch._ops.OpOverload) and target.namespace == "aten"
    return is_aten and target.__name__ not in operators() and f"aten.{target.__name__}" in operators()


def _tensors(node) -> Iterator[torch.Tensor]:
    values = [node.meta.get("val"), *(source.meta.get("val") for source in node.all_input_nodes)]
    return (value for value in torch.utils._pytree.tree_leaves(values) if isinstance(value, torch.Tensor))


@functools.cache
def _teach_backend() -> None:
    """Lets the stock backend write all of Nibble's operators. Its own partitioner is not changed by this."""
    stock = VulkanBackend.preprocess.__func__

    def preprocess(cls, program, module_compile_spec):
        for node in program.graph.nodes:
            if _is_plain_aten(node.target):
                node.target = aten_to_edge(node.target)
        with _registered(program.graph):
            return stock(cls, program, module_compile_spec)

    VulkanBackend.preprocess = classmethod(preprocess)


@contextlib.contextmanager
def _registered(graph: torch.fx.Graph) -> Iterator[None]:
    registry = op_registry.vulkan_supported_ops
    features = op_registry.OpFeatures(inputs_storage=utils.ANY_STORAGE, supports_resize=True, supports_highdim=True)
    targets = {node.target for node in graph.nodes if node.op == "call_function" and hasattr(node.target, "name")}
    new = {target for target in targets if target not in registry and target.name() not in registry}
    registry.update(dict.fromkeys(new, features))
    try:
        yield
    finally:
        for target in new:
            del registry[target]


@functools.cache
def _sdpa() -> torch._ops.OpOverload:
    """The exporter's attention. Its own body cannot be traced with dynamic sizes, so that it needs one for shapes."""
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (registers et_vk)

    @torch.library.register_fake("et_vk::sdpa", allow_override=True)
    def shape(q, k, v, attn_mask=None, scale=None):
        return q.new_empty((*q.shape[:-1], v.shape[-1]))

    return torch.ops.et_vk.sdpa.default


def _emit(graph: torch.fx.Graph, mode: Any, target: torch._ops.OpOverload, *args, **kwargs) -> torch.fx.Node:
    new = graph.call_function(target, args, kwargs)
    values = torch.fx.map_arg((args, kwargs), lambda source: source.meta["val"])
    # Outside this mode, a tensor that is made of a dynamic size would fix that size.
    with mode:
        new.meta["val"] = target(*values[0], **values[1])
    return new


def _take_tensors(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Makes a tensor of an operator's number; both operands get the type of the result."""
    value, number = node.args
    mode, dtype = node.meta["val"].fake_mode, node.meta["val"].dtype
    node.target = _OF_TENSORS_ALONE[node.target]
    with graph.inserting_before(node):
        if value.meta["val"].dtype != dtype:
            value = _emit(graph, mode, aten.to.dtype, value, dtype)
        node.args = (value, _emit(graph, mode, aten.full.default, [], number, dtype=dtype))


def _keep_attention(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Replaces scaled_dot_product_attention by et_vk.sdpa, which adds a mask, where they mean the same."""
    schema = [argument.name for argument in node.target._schema.arguments]
    given = dict(zip(schema, node.args, strict=False)) | node.kwargs
    q, k, v, mask = (given.get(name) for name in ("query", "key", "value", "attn_mask"))
    rank = q.meta["val"].dim()
    values = [tensor.meta["val"] for tensor in (q, k, v)]
    if given.get("dropout_p", 0.0) or any(one.dim() != rank or not one.is_floating_point() for one in values):
        return

    emit = functools.partial(_emit, graph, q.meta["val"].fake_mode)

    def size(tensor, dim: int):
        length = tensor.meta["val"].shape[dim]
        return emit(aten.sym_size.int, tensor, dim) if isinstance(length, torch.SymInt) else length

    dtype = q.meta["val"].dtype
    with graph.inserting_before(node):
        groups = q.meta["val"].shape[-3] // k.meta["val"].shape[-3] if given.get("enable_gqa") else 1
        if groups != 1:
            k, v = (emit(aten.repeat_interleave.self_int, tensor, groups, rank - 3) for tensor in (k, v))
        if given.get("is_causal"):
            rows, keys = (emit(aten.arange.default, size(tensor, rank - 2)) for tensor in (q, k))
            mask = emit(aten.ge.Tensor, emit(aten.unsqueeze.default, rows, 1), keys)
        masked = mask is not None and not given.get("is_causal")
        if mask is not None and mask.meta["val"].dtype == torch.bool:
            mask = emit(aten.where.self, mask, *(emit(aten.full.default, [], x) for x in (0.0, float("-inf"))))
        if mask is not None and mask.meta["val"].dtype != dtype:
            mask = emit(aten.to.dtype, mask, dtype)
        new = emit(_sdpa(), q, k, v, mask, given.get("scale"))
        if masked:
            # Torch gives zeros where all keys are masked; a softmax gives NaN.
            nothing = emit(aten.eq.Scalar, emit(aten.amax.default, mask, [-1], True), float("-inf"))
            new = emit(aten.where.self, nothing, emit(aten.full.default, [], 0.0, dtype=dtype), new)
    node.replace_all_uses_with(new)
    graph.erase_node(node)
