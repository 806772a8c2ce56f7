"""What the stock exporter does with a graph, noted while it does it."""

import contextlib
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
