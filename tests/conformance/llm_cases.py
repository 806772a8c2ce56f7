"""Tiny language models: Llama's and Qwen's kinds, grouped heads of odd sizes, 4 bits and more, static and dynamic."""

from conformance.llm_case import Llm


def llama(**params) -> dict:
    return {"n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-5, "rope_theta": 5e5, **params}


def qwen(**params) -> dict:
    return {
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "norm_eps": 1e-6,
        "rope_theta": 1e6,
        "use_hf_rope": True,
        **params,
    }


QK_NORM = {"use_qk_norm": True, "qk_norm_before_rope": True}

# Every day one of them has two layers: to export a layer takes the stock exporter eight seconds.
# The exporter refuses a 4-bit linear of a width that is no multiple of 4, so only float32 has an odd vocabulary.
EVERYDAY = [
    Llm(
        "llm_4w_head_18",
        llama(dim=96, head_dim=18, hidden_dim=144, vocab_size=508, use_scaled_rope=True),
        group=24,
        # Splits the embedding and the last linear.
        shard_bytes=16000,
    ),
    Llm(
        "llm_4w_head_84_static",
        llama(dim=96, n_layers=1, head_dim=84, hidden_dim=144, vocab_size=508),
        group=48,
        dynamic=False,
    ),
    Llm(
        "llm_qwen3_head_20",
        qwen(dim=96, n_layers=1, head_dim=20, hidden_dim=160, vocab_size=404, n_kv_heads=1, **QK_NORM),
        "qwen3_0_6b",
        group=16,
    ),
    Llm(
        "llm_8da4w_static",
        llama(dim=96, n_layers=1, hidden_dim=160, vocab_size=508),
        quantization="8da4w",
        dynamic=False,
        atol=0.15,
    ),
]
SLOW = [
    Llm("llm_fp32", llama(dim=90, n_heads=5, n_kv_heads=1, hidden_dim=147, vocab_size=509), quantization=None),
    Llm(
        "llm_4w_half",
        llama(dim=96, head_dim=20, hidden_dim=144, vocab_size=508),
        group=16,
        half=True,
        atol=2e-2,
        numpy_atol=2e-2,
    ),
    Llm("llm_8da4w", llama(dim=96, hidden_dim=160, vocab_size=508), quantization="8da4w", atol=0.15),
    Llm("llm_4w_head_20", llama(dim=160, n_layers=4, n_heads=8, hidden_dim=224, vocab_size=508)),
    Llm("llm_4w_head_84", llama(dim=96, n_layers=3, head_dim=84, hidden_dim=144, vocab_size=508), group=48),
    Llm("llm_qwen2_bias", qwen(dim=96, hidden_dim=160, vocab_size=508, attention_qkv_bias=True), "qwen2_5_0_5b"),
]
