"""Builds programs that the exporter will not emit: delegate blobs (VH00, VK00) and .pte files around them.

    b = Blob()
    ids = b.tensor("int32", [2, 3])
    table = b.constant(packed)                      # a NumPy array
    out = b.tensor("float32", [2, 3, 64])
    b.op("et_vk.embedding_q4gsw.default", [table, b.constant(scales), b.integer(32), ids, b.boolean(True), out])
    b.inputs, b.outputs = [ids], [out]
    path.write_bytes(b.pte())

The twin of blob_builder.hpp and pte_builder.hpp. It writes with ExecuTorch's own serializers.
"""

import hashlib
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from executorch.backends.vulkan.serialization import vulkan_graph_schema as vk
from executorch.backends.vulkan.serialization.vulkan_graph_serialize import (
    VulkanDelegateHeader,
    convert_to_flatbuffer,
)
from executorch.exir import schema as et
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.scalar_type import ScalarType

_DEVICE_TYPES = {
    "bool": vk.VkDataType.BOOL,
    "uint8": vk.VkDataType.UINT8,
    "int8": vk.VkDataType.INT8,
    "int32": vk.VkDataType.INT32,
    "float16": vk.VkDataType.FLOAT16,
    "float32": vk.VkDataType.FLOAT32,
    "float64": vk.VkDataType.FLOAT64,
    "int64": vk.VkDataType.INT64,
}
_HOST_TYPES = {
    "bool": ScalarType.BOOL,
    "uint8": ScalarType.BYTE,
    "int8": ScalarType.CHAR,
    "int32": ScalarType.INT,
    "float16": ScalarType.HALF,
    "float32": ScalarType.FLOAT,
    "float64": ScalarType.DOUBLE,
    "int64": ScalarType.LONG,
}


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 16)


class Blob:
    """One delegate graph. Methods return value ids."""

    def __init__(self) -> None:
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.values: list[Any] = []
        self.chain: list[vk.OperatorCall] = []
        self.constants: list[vk.VkBytes] = []
        self.named: dict[str, bytes] = {}
        self._host: dict[int, tuple[str, list[int]]] = {}
        self._raw = b""

    def add(self, value: Any) -> int:
        """Any value of vulkan_graph_schema."""
        self.values.append(value)
        return len(self.values) - 1

    def tensor(
        self, dtype: str, dims: Sequence[int], *, staging: str | None = None, mem_obj: int = -1, constant: int = -1
    ) -> int:
        tensor = vk.VkTensor(
            datatype=_DEVICE_TYPES[dtype],
            dims=list(dims),
            constant_id=constant,
            mem_obj_id=mem_obj,
            staging_datatype=_DEVICE_TYPES[staging or dtype],
        )
        self._host[len(self.values)] = (staging or dtype, list(dims))
        return self.add(tensor)

    def constant(self, array: np.ndarray, *, inline: bool = False, mem_obj: int = -1) -> int:
        """A tensor with bytes of its own: named data, as the exporter writes it, or inside the blob."""
        data = np.ascontiguousarray(array).tobytes()
        if inline or not data:
            self.constants.append(vk.VkBytes(len(self._raw), len(data)))
            self._raw += _aligned(data)
        else:
            key = hashlib.sha256(data).hexdigest()
            self.named[key] = data
            self.constants.append(vk.VkBytes(2**64 - 1, len(data), key))
        return self.tensor(array.dtype.name, array.shape, mem_obj=mem_obj, constant=len(self.constants) - 1)

    def null(self) -> int:
        return self.add(vk.Null())

    def integer(self, value: int) -> int:
        return self.add(vk.Int(value))

    def number(self, value: float) -> int:
        return self.add(vk.Double(value))

    def boolean(self, value: bool) -> int:
        return self.add(vk.Bool(value))

    def text(self, value: str) -> int:
        return self.add(vk.String(value))

    def ints(self, values: Sequence[int]) -> int:
        return self.add(vk.IntList(list(values)))

    def numbers(self, values: Sequence[float]) -> int:
        return self.add(vk.DoubleList(list(values)))

    def booleans(self, values: Sequence[bool]) -> int:
        return self.add(vk.BoolList(list(values)))

    def value_list(self, ids: Sequence[int]) -> int:
        return self.add(vk.ValueList(list(ids)))

    def symint(self) -> int:
        return self.add(vk.SymInt(0))

    def op(self, name: str, args: Sequence[int]) -> None:
        self.chain.append(vk.OperatorCall(len(self.chain), name, list(args)))

    def blob(self) -> bytes:
        """The delegate blob."""
        graph = vk.VkGraph(
            version="0",
            chain=self.chain,
            values=[vk.VkValue(v) for v in self.values],
            input_ids=self.inputs,
            output_ids=self.outputs,
            constants=self.constants,
            shaders=[],
        )
        flatbuffer = convert_to_flatbuffer(graph)
        body = _aligned(flatbuffer)
        header = VulkanDelegateHeader(32, len(flatbuffer), 32 + len(body), len(self._raw))
        return _aligned(header.to_bytes()) + body + self._raw

    def pte(
        self,
        *,
        dynamic: bool | Collection[int] = False,
        wide_ints: bool = True,
        constant_methods: dict[str, Any] | None = None,
    ) -> bytes:
        """A program whose method `forward` is this graph, for stock ExecuTorch and for Nibble alone.

        `dynamic`: whether all inputs and outputs are, or which values. The host holds int64 for int32 values when
        `wide_ints`, as in what the exporter writes.
        """
        ends = [*self.inputs, *self.outputs]
        values: list[et.EValue] = []
        memory = 0
        for end in ends:
            if end not in self._host:
                values.append(et.EValue(et.Int(0)))
                continue
            dtype, dims = self._host[end]
            host = "int64" if wide_ints and dtype == "int32" else dtype
            is_dynamic = dynamic if isinstance(dynamic, bool) else end in dynamic
            values.append(et.EValue(_host_tensor(host, dims, memory, is_dynamic)))
            memory += math.ceil(math.prod(dims) * np.dtype(host).itemsize / 16) * 16
        count = len(self.inputs)
        ids = list(range(len(ends)))
        call = et.Instruction(et.DelegateCall(delegate_index=0, args=ids))
        place = et.BackendDelegateDataReference(et.DataLocation.INLINE, 0)
        forward = et.ExecutionPlan(
            name="forward",
            container_meta_type=et.ContainerMetadata("", ""),
            values=values,
            inputs=ids[:count],
            outputs=ids[count:],
            chains=[et.Chain([], [], [call], None)],
            operators=[],
            delegates=[et.BackendDelegate("VulkanBackend", place, [])],
            non_const_buffer_sizes=[0, max(memory, 16)],
        )
        program = et.Program(
            version=0,
            execution_plan=[forward, *(_constant_method(k, v) for k, v in (constant_methods or {}).items())],
            constant_buffer=[et.Buffer(b"")],
            backend_delegate_data=[et.BackendDelegateInlineData(self.blob())],
            segments=[],
            constant_segment=et.SubsegmentOffsets(0, []),
        )
        store = NamedDataStore()
        for key, data in self.named.items():
            store.add_named_data(key, data, alignment=16)
        file = PTEFile(program=program, named_data=store.get_named_data_store_output())
        return bytes(serialize_pte_binary(file, extract_delegate_segments=True))


def _host_tensor(dtype: str, dims: Sequence[int], memory: int, dynamic: bool) -> et.Tensor:
    return et.Tensor(
        scalar_type=_HOST_TYPES[dtype],
        storage_offset=0,
        sizes=list(dims),
        dim_order=list(range(len(dims))),
        requires_grad=False,
        layout=0,
        data_buffer_idx=0,
        allocation_info=et.AllocationDetails(1, memory % 2**32, memory // 2**32),
        shape_dynamism=et.TensorShapeDynamism.DYNAMIC_BOUND if dynamic else et.TensorShapeDynamism.STATIC,
    )


def _constant_method(name: str, value: Any) -> et.ExecutionPlan:
    kinds = {bool: et.Bool, int: et.Int, float: et.Double, str: et.String}
    return et.ExecutionPlan(
        name=name,
        container_meta_type=et.ContainerMetadata("", ""),
        values=[et.EValue(kinds[type(value)](value))],
        inputs=[],
        outputs=[0],
        chains=[et.Chain([], [], [], None)],
        operators=[],
        delegates=[],
        non_const_buffer_sizes=[0],
    )
