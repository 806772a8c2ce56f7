"""SmolLM2 by ExecuTorch's XNNPACK delegate: generate_peer.py MODEL.gguf OUT.pte [--fp32].

The stock export of Llama models, from the file's dequantized weights. By default with 4-bit weights and 8-bit
activations in groups of 32, which is how XNNPACK runs language models fastest; the file's asymmetric groups are rounded
once more to symmetric ones, which does not matter to time. With --fp32 exactly the file's weights, four bytes each.
"""

import argparse
import json
import logging
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np

CHUNK, CONTEXT = 128, 1024
PARTS = {
    "attn_q": "attention.wq",
    "attn_k": "attention.wk",
    "attn_v": "attention.wv",
    "attn_output": "attention.wo",
    "ffn_gate": "feed_forward.w1",
    "ffn_down": "feed_forward.w2",
    "ffn_up": "feed_forward.w3",
    "attn_norm": "attention_norm",
    "ffn_norm": "ffn_norm",
}


def write_checkpoint(path: Path, folder: Path) -> None:
    import gguf
    import torch

    reader = gguf.GGUFReader(path)
    given = {
        tensor.name: torch.from_numpy(
            np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        ).reshape([int(size) for size in reversed(tensor.shape)])
        for tensor in reader.tensors
    }

    def fact(key: str):
        return reader.fields[f"llama.{key}"].contents()

    layers = fact("block_count")
    state = {
        "tok_embeddings.weight": given["token_embd.weight"],
        "norm.weight": given["output_norm.weight"],
        "output.weight": given.get("output.weight", given["token_embd.weight"]).clone(),
    }
    for layer in range(layers):
        for theirs, ours in PARTS.items():
            state[f"layers.{layer}.{ours}.weight"] = given[f"blk.{layer}.{theirs}.weight"]
    torch.save(state, folder / "weights.pth")
    params = {
        "dim": fact("embedding_length"),
        "n_layers": layers,
        "n_heads": fact("attention.head_count"),
        "n_kv_heads": fact("attention.head_count_kv"),
        "vocab_size": len(given["token_embd.weight"]),
        "hidden_dim": fact("feed_forward_length"),
        "norm_eps": fact("attention.layer_norm_rms_epsilon"),
        "rope_theta": fact("rope.freq_base"),
        "use_scaled_rope": False,
    }
    (folder / "params.json").write_text(json.dumps(params))


def export(path: Path, out: Path, is_quantized: bool) -> None:
    from executorch.examples.models.llama.export_llama_lib import export_llama
    from executorch.extension.llm.export.config import llm_config

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(path, folder)
        config = llm_config.LlmConfig()
        config.base.model_class = llm_config.ModelType("llama3_2")
        config.base.checkpoint, config.base.params = str(folder / "weights.pth"), str(folder / "params.json")
        config.model.use_kv_cache = config.model.use_sdpa_with_kv_cache = config.model.enable_dynamic_shape = True
        config.model.dtype_override = llm_config.DtypeOverride("fp32")
        # One more than a call may have.
        config.export.max_seq_length, config.export.max_context_length = CHUNK + 1, CONTEXT
        config.export.output_dir, config.export.output_name = str(folder), "model"
        config.backend.xnnpack.enabled = True
        config.backend.xnnpack.extended_ops = True
        if is_quantized:
            config.quantization.qmode, config.quantization.group_size = "8da4w", 32
            # The scales of least error take minutes, and do not matter to time.
            config.quantization.use_hqq = False
        export_llama(config)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "model.pte", out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fp32", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    export(arguments.model, arguments.out, not arguments.fp32)


if __name__ == "__main__":
    main()
