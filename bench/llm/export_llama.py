"""Exports a Llama of the 3.2 1B shape with random weights: export_llama.py OUT.pte [--layers N].

4-bit linears and embedding in groups of 32, float32 KV cache, dynamic prompt length, by the stock exporter. What the
weights are does not matter to time and memory; that they differ does, because equal constants are stored once.
"""

import argparse
import functools
import json
import logging
import shutil
import tempfile
import warnings
from pathlib import Path

SHAPE = {
    "dim": 2048,
    "n_heads": 32,
    "n_kv_heads": 8,
    "vocab_size": 128256,
    "hidden_dim": 8192,
    "norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "use_scaled_rope": False,
}


def cache_patterns() -> None:
    """The exporter builds its fusion patterns anew for every lowering; once is enough."""
    import executorch.backends.vulkan.patterns  # noqa: F401  (registers the patterns)
    from executorch.backends.vulkan.patterns.pattern_registry import fusable_patterns

    for entry in fusable_patterns.values():
        if entry.get_graphs_fn:
            entry.get_graphs_fn = functools.lru_cache(None)(entry.get_graphs_fn)


def make_checkpoint(folder: Path, params: dict) -> None:
    import torch
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs

    torch.manual_seed(1)
    model = construct_transformer(ModelArgs(**params))
    for value in model.state_dict().values():
        if value.is_floating_point() and value.dim() == 2:
            value.normal_(0, 0.02)
    torch.save(model.state_dict(), folder / "weights.pth")
    (folder / "params.json").write_text(json.dumps(params))


def main() -> None:
    parser = argparse.ArgumentParser(description="Exports a Llama of the 3.2 1B shape with random weights.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--context", type=int, default=2048)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    cache_patterns()
    from executorch.examples.models.llama import export_llama_lib
    from executorch.extension.llm.export.config import llm_config

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_checkpoint(folder, {**SHAPE, "n_layers": arguments.layers})
        config = llm_config.LlmConfig()
        config.base.model_class = llm_config.ModelType("llama3_2")
        config.base.checkpoint, config.base.params = str(folder / "weights.pth"), str(folder / "params.json")
        config.model.use_kv_cache = config.model.use_sdpa_with_kv_cache = True
        config.model.enable_dynamic_shape = True
        config.model.dtype_override = llm_config.DtypeOverride("fp32")
        config.quantization.qmode, config.quantization.group_size = "4w", 32
        config.quantization.embedding_quantize = "4,32"
        config.quantization.use_hqq = False
        config.export.max_seq_length, config.export.max_context_length = 128, arguments.context
        config.export.output_dir, config.export.output_name = str(folder), "model"
        config.backend.vulkan.enabled = True
        export_llama_lib.export_llama(config)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "model.pte", arguments.out)


if __name__ == "__main__":
    main()
