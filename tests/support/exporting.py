"""What the stock exporter does with a graph, noted while it does it, and what it need not do again and again."""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest import mock


@dataclass
class Notes:
    """The operators of each delegate, by the names that a program has, and why each node was left outside."""

    delegates: list[list[str]] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def ops(self) -> set[str]:
        return {name for names in self.delegates for name in names}


@contextlib.contextmanager
def note_export() -> Iterator[Notes]:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanSupportedOperators
    from executorch.backends.vulkan.serialization.vulkan_graph_builder import VkGraphBuilder

    notes, build_graph = Notes(), VkGraphBuilder.build_graph

    def build_and_note(builder):
        graph = build_graph(builder)
        notes.delegates.append([call.name for call in graph.chain])
        return graph

    def note_skip(_, node, reason: str) -> None:
        if node.op == "call_function":
            notes.reasons[node.name] = reason

    with (
        mock.patch.object(VkGraphBuilder, "build_graph", build_and_note),
        mock.patch.object(VulkanSupportedOperators, "log_skip", note_skip),
    ):
        yield notes


def keep_overriding_kernels() -> None:
    """In every decomposition the exporter makes kernels for hundreds of operators, and drops them afterwards. From now
    on it puts the same ones in place again."""
    from torch._subclasses import fake_impls
    from torch.export import exported_program

    override, rules = exported_program._override_composite_implicit_decomp, fake_impls.op_implementations_dict

    @functools.cache
    def made_for(op, decompose) -> tuple[dict, object]:
        with override({op: decompose}):
            return op.py_kernels.copy(), rules[op]

    @contextlib.contextmanager
    def override_again(decompositions: dict) -> Iterator[None]:
        before = {}
        try:
            for op, decompose in decompositions.items():
                kernels, rule = made_for(op, decompose)
                before[op] = op.py_kernels.copy()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()
                rules.setdefault(op, rule)
            yield
        finally:
            for op, kernels in before.items():
                op.py_kernels.clear()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()
                fake_impls._deregister_op_impl(op)

    exported_program._override_composite_implicit_decomp = override_again
