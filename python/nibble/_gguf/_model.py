"""The model of a GGUF file, as a torch module of the operators that the stock exporter gives language models.

Activations are [S, dim]. With one linear of each kind of weight, the exported program has

    4-bit groups                et_vk.linear_q4gsw(x, packed, scales, 32, bias or None)
    ... with offsets            sums = aten.sum.dim_IntList(aten.view_copy(x, [S, K / 32, 32]), [-1], False)
                                aten.add.Tensor(et_vk.linear_q4gsw(x, packed, scales, 32, bias or None),
                                                aten.mm(sums, offsets))
    the embedding               aten.view_copy(et_vk.embedding_q4gsw(table, scales, 32, tokens, True), [S, dim]), of
                                two tables, and aten.add.Tensor of both, unless the file has it in Q4_0
    8 bits                      aten._weight_int8pack_mm(x, steps, scales), and aten.add.Tensor of a bias

where the sums are made once for all linears of one x, scales and offsets are [K / 32, N], and a layer is:
et_vk.rms_norm, q, k, v, views to [1, S, heads, head], et_vk.apply_rotary_emb (or _hf), sdpa_with_kv_cache, view to
[S, dim], o, add, et_vk.rms_norm, gate, sigmoid, mul, up, mul, down, add.
"""

import functools

import executorch.backends.vulkan.custom_ops_lib  # (registers et_vk)
import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (registers llama)
import numpy as np
import torch

from ._shape import Shape
from ._weights import GROUP, Q4, Q8, Table

et_vk, llama = torch.ops.et_vk, torch.ops.llama


class Linears(torch.nn.Module):
    """Linears of one input."""

    def __init__(self, *weights: tuple[Q4 | Q8, np.ndarray | None]):
        super().__init__()
        self.parts = torch.nn.ModuleList(Linear(weight, bias) for weight, bias in weights)
        self.needs_sums = any(hasattr(part, "offsets") for part in self.parts)

    def forward(self, x):
        sums = x.view(x.shape[0], x.shape[1] // GROUP, GROUP).sum(-1) if self.needs_sums else None
        return [part(x, sums) for part in self.parts]


class Linear(torch.nn.Module):
    def __init__(self, weight: Q4 | Q8, bias: np.ndarray | None):
        super().__init__()
        self.is_q4 = isinstance(weight, Q4)
        _keep(self, weight=weight.packed if self.is_q4 else weight.steps, scales=weight.scales, bias=bias)
        if self.is_q4 and weight.offsets is not None:
            _keep(self, offsets=weight.offsets)

    def forward(self, x, sums):
        if not self.is_q4:
            y = torch._weight_int8pack_mm(x, self.weight, self.scales)
            return y if self.bias is None else y + self.bias
        y = et_vk.linear_q4gsw.default(x, self.weight, self.scales, GROUP, self.bias)
        return y + torch.mm(sums, self.offsets) if hasattr(self, "offsets") else y


class Embedding(torch.nn.Module):
    """Rows of a 4-bit table, [S, width]."""

    def __init__(self, table: Table):
        super().__init__()
        self.group = table.group
        _keep(self, weight=table.packed, scales=table.scales)

    def forward(self, tokens):
        rows = et_vk.embedding_q4gsw.default(self.weight, self.scales, self.group, tokens, True)
        return rows.view(tokens.shape[1], self.weight.shape[1] * 2)


class Norm(torch.nn.Module):
    def __init__(self, weight: np.ndarray, epsilon: float):
        super().__init__()
        self.epsilon = epsilon
        _keep(self, weight=weight)

    def forward(self, x):
        return et_vk.rms_norm.default(x, self.weight, self.epsilon)


class Layer(torch.nn.Module):
    def __init__(self, shape: Shape, context: int, weights: dict):
        super().__init__()
        self.shape = shape
        self.attention_norm = Norm(weights["attn_norm"], shape.epsilon)
        self.qkv = Linears(weights["attn_q"], weights["attn_k"], weights["attn_v"])
        self.o = Linears(weights["attn_output"])
        self.feed_norm = Norm(weights["ffn_norm"], shape.epsilon)
        self.gate_up = Linears(weights["ffn_gate"], weights["ffn_up"])
        self.down = Linears(weights["ffn_down"])
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, context, shape.kv_heads, shape.head))

    def forward(self, x, cos, sin, start):
        shape, length = self.shape, x.shape[0]
        q, k, v = self.qkv(self.attention_norm(x))
        q = q.view(1, length, shape.heads, shape.head)
        k = k.view(1, length, shape.kv_heads, shape.head)
        v = v.view(1, length, shape.kv_heads, shape.head)
        if shape.rotates_halves:
            q, k = et_vk.apply_rotary_emb_hf.default(q, k, cos, sin, start)
        else:
            q, k = et_vk.apply_rotary_emb.default(q, k, cos, sin)
        llama.update_cache(k, self.keys, start)
        llama.update_cache(v, self.values, start)
        y = llama.custom_sdpa(q, self.keys, self.values, start, None, 0, True)
        x = x + self.o(y.view(length, shape.heads * shape.head))[0]
        gate, up = self.gate_up(self.feed_norm(x))
        return x + self.down(gate * torch.sigmoid(gate) * up)[0]


class Model(torch.nn.Module):
    """tokens int64 [1, S], input_pos int64 [1] → logits float32 [1, vocabulary] of the last token, or of all,
    [1, S, vocabulary]."""

    def __init__(
        self, shape: Shape, context: int, tables: list[Table], layers: list[dict], norm: np.ndarray, head: Q4 | Q8
    ):
        super().__init__()
        _tell_shapes()
        self.context, self.rotates_halves = context, shape.rotates_halves
        self.full_logits = False
        self.tables = torch.nn.ModuleList(map(Embedding, tables))
        cos, sin = shape.rotations(context)
        _keep(self, cos=cos, sin=sin)
        self.layers = torch.nn.ModuleList(Layer(shape, context, weights) for weights in layers)
        self.norm = Norm(norm, shape.epsilon)
        self.head = Linears((head, None))

    def forward(self, tokens, input_pos):
        length = tokens.shape[1]
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start + length <= self.context)
        first, *others = (table(tokens) for table in self.tables)
        x = sum(others, start=first)
        cos, sin = self.cos, self.sin
        if not self.rotates_halves:
            cos, sin = cos.narrow(0, start, length), sin.narrow(0, start, length)
        for layer in self.layers:
            x = layer(x, cos, sin, start)
        if self.full_logits:
            return self.head(self.norm(x))[0].unsqueeze(0)
        return self.head(self.norm(x.view(1, length, x.shape[1])[:, -1]))[0]


def _keep(module: torch.nn.Module, **arrays: np.ndarray | None) -> None:
    for name, array in arrays.items():
        module.register_buffer(name, None if array is None else torch.from_numpy(np.require(array, requirements="CW")))


@functools.cache
def _tell_shapes() -> None:
    """The exporter asks for the shape of every node dozens of times, and would work it out from what operators do."""

    def register(name: str):
        return torch.library.register_fake(f"et_vk::{name}", allow_override=True)

    @register("linear_q4gsw")
    def linear(x, weights, weight_scales, group_size, bias=None):
        return x.new_empty((*x.shape[:-1], weights.shape[0]))

    @register("embedding_q4gsw")
    def embedding(weight, weight_scales, group_size, indices, is_linear_weight=False):
        return weight_scales.new_empty((*indices.shape, weight.shape[1] * 2))

    @register("rms_norm")
    def norm(x, weight, eps):
        return torch.empty_like(x)

    @register("apply_rotary_emb")
    def pairs(xq, xk, freqs_cos, freqs_sin):
        return torch.empty_like(xq), torch.empty_like(xk)

    @register("apply_rotary_emb_hf")
    def halves(xq, xk, freqs_cos, freqs_sin, start_pos):
        return torch.empty_like(xq), torch.empty_like(xk)
