"""Tiny GGUF files with random weights, and what their models give, worked out in NumPy."""

from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np

from conformance import llm_reference

Type = gguf.GGMLQuantizationType
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
CONTEXT = 96
# The names of GGUF and those of the reference.
LINEARS = {
    "attn_q": "attention.wq",
    "attn_k": "attention.wk",
    "attn_v": "attention.wv",
    "attn_output": "attention.wo",
    "ffn_gate": "feed_forward.w1",
    "ffn_down": "feed_forward.w2",
    "ffn_up": "feed_forward.w3",
}


def byte_letters() -> list[str]:
    """The letters that stand for the 256 bytes in byte-level tokenizers."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = (byte for byte in range(256) if byte not in plain)
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def vocabulary() -> tuple[list[str], list[str]]:
    """Special tokens, all bytes, and a few merges."""
    merges = ["Ġ t", "h e", "Ġt he", "i n", "i s", "Ġ is", "a p", "l l", "o n", "1 2"]
    return [*SPECIAL, *byte_letters(), *(merge.replace(" ", "") for merge in merges)], merges


@dataclass(frozen=True)
class TinyModel:
    """A file. Types are those of GGUF's tensors, by the ending of their names; "" is for all others."""

    architecture: str = "llama"
    dim: int = 64
    hidden: int = 96
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    types: dict[str, Type] = field(default_factory=dict)
    is_tied: bool = True
    pre: str = "smollm"
    factors: tuple[float, ...] = ()
    seed: int = 1

    @property
    def head(self) -> int:
        return self.dim // self.heads

    def type_of(self, name: str) -> Type:
        return next((kind for end, kind in self.types.items() if end and end in name), self.types.get("", Type.F32))

    def tensors(self) -> dict[str, np.ndarray]:
        """By their names in the file; matrices in float32."""
        rng = np.random.default_rng(self.seed)
        rows = len(vocabulary()[0])
        keys = self.kv_heads * self.head
        sizes = {"token_embd": (rows, self.dim)}
        if not self.is_tied:
            sizes["output"] = (rows, self.dim)
        for layer in range(self.layers):
            block = f"blk.{layer}."
            sizes |= {
                f"{block}attn_q": (self.dim, self.dim),
                f"{block}attn_k": (keys, self.dim),
                f"{block}attn_v": (keys, self.dim),
                f"{block}attn_output": (self.dim, self.dim),
                f"{block}ffn_gate": (self.hidden, self.dim),
                f"{block}ffn_up": (self.hidden, self.dim),
                f"{block}ffn_down": (self.dim, self.hidden),
            }
        found = {
            f"{name}.weight": rng.standard_normal(size, np.float32) / size[1] ** 0.5 for name, size in sizes.items()
        }
        # So that it does not say half a character.
        for name in {"token_embd", "output"} & sizes.keys():
            found[f"{name}.weight"][len(SPECIAL) + 128 : len(SPECIAL) + 256] = 0
        if self.architecture == "qwen2":
            for name in list(sizes):
                if name.endswith(("_q", "_k", "_v")):
                    found[f"{name}.bias"] = rng.standard_normal(sizes[name][0], np.float32) / 4
        norms = ["output_norm", *(f"blk.{n}.{name}" for n in range(self.layers) for name in ("attn_norm", "ffn_norm"))]
        found |= {f"{name}.weight": 1 + rng.standard_normal(self.dim, np.float32) / 4 for name in norms}
        if self.factors:
            found["rope_freqs.weight"] = np.array(self.factors, np.float32)
        return found

    def write(self, path: Path, change=None) -> Path:
        """change: is given the writer before anything else, and says which keys and tensors it takes on itself."""
        writer = gguf.GGUFWriter(path, self.architecture)
        own = change(writer) if change else ()
        tokens, merges = vocabulary()
        name = self.architecture
        facts = {
            "general.name": ("add_string", "Tiny"),
            f"{name}.block_count": ("add_uint32", self.layers),
            f"{name}.context_length": ("add_uint32", CONTEXT),
            f"{name}.embedding_length": ("add_uint32", self.dim),
            f"{name}.feed_forward_length": ("add_uint32", self.hidden),
            f"{name}.attention.head_count": ("add_uint32", self.heads),
            f"{name}.attention.head_count_kv": ("add_uint32", self.kv_heads),
            f"{name}.attention.layer_norm_rms_epsilon": ("add_float32", 1e-5),
            f"{name}.rope.freq_base": ("add_float32", 5e5),
            "tokenizer.ggml.model": ("add_string", "gpt2"),
            "tokenizer.ggml.pre": ("add_string", self.pre),
            "tokenizer.ggml.tokens": ("add_array", tokens),
            "tokenizer.ggml.token_type": ("add_array", [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL))),
            "tokenizer.ggml.merges": ("add_array", merges),
            "tokenizer.ggml.bos_token_id": ("add_uint32", 1),
            "tokenizer.ggml.eos_token_id": ("add_uint32", 2),
            "tokenizer.ggml.add_bos_token": ("add_bool", False),
            "tokenizer.chat_template": ("add_string", TEMPLATE),
        }
        for key, (method, value) in facts.items():
            if key not in own:
                getattr(writer, method)(key, value)
        for tensor, values in self.tensors().items():
            if tensor not in own:
                add_tensor(writer, tensor, values, self.type_of(tensor) if values.ndim == 2 else Type.F32)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def reference(self, path: Path) -> llm_reference.Model:
        """The model in NumPy: the weights as the library dequantizes them, rounded where that is said."""
        stored = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}

        def values(name: str) -> np.ndarray:
            tensor = stored[name]
            shape = [int(size) for size in reversed(tensor.shape)]
            return gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float32)

        def linear(name: str) -> np.ndarray:
            exact = stored[name].tensor_type in (Type.Q4_0, Type.Q4_1, Type.Q4_K)
            return values(name) if exact else in_8_bits(values(name))

        weights = {"tok_embeddings": self.embedding(values), "norm": values("output_norm.weight")}
        weights["output"] = linear("token_embd.weight" if self.is_tied else "output.weight")
        for layer in range(self.layers):
            for name, ours in LINEARS.items():
                weights[f"layers.{layer}.{ours}"] = linear(f"blk.{layer}.{name}.weight")
                if f"blk.{layer}.{name}.bias" in stored:
                    weights[f"layers.{layer}.{ours}.bias"] = values(f"blk.{layer}.{name}.bias")
            weights[f"layers.{layer}.attention_norm"] = values(f"blk.{layer}.attn_norm.weight")
            weights[f"layers.{layer}.ffn_norm"] = values(f"blk.{layer}.ffn_norm.weight")
        params = {
            "dim": self.dim,
            "n_layers": self.layers,
            "n_heads": self.heads,
            "n_kv_heads": self.kv_heads,
            "norm_eps": 1e-5,
            "rope_theta": 5e5,
            "use_hf_rope": self.architecture == "qwen2",
        }
        weights = {name: llm_reference.Weight(value) for name, value in weights.items()}
        model = llm_reference.Model(params, weights, CONTEXT, False)
        if self.factors:
            speeds = 5e5 ** -(np.arange(0, self.head, 2) / self.head) / np.array(self.factors)
            angles = np.outer(np.arange(CONTEXT), speeds)
            model.cos, model.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        return model

    def embedding(self, values) -> np.ndarray:
        import nibble

        table = values("token_embd.weight")
        if self.type_of("token_embd.weight") == Type.Q4_0:
            return table
        group = 32 if self.dim % 32 == 0 else 8
        coarse = nibble.dequantize_q4(*nibble.quantize_q4(table, group), group)
        return coarse + nibble.dequantize_q4(*nibble.quantize_q4(table - coarse, group), group)


def in_8_bits(values: np.ndarray) -> np.ndarray:
    """One step per row: its largest magnitude is 127 of them."""
    steps = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    return np.rint(values / np.where(steps > 0, steps, 1)) * steps


def add_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray, kind: Type) -> None:
    if kind in (Type.F32, Type.F16):
        writer.add_tensor(name, values.astype(np.float32 if kind == Type.F32 else np.float16))
    else:
        writer.add_tensor(name, blocks(values, kind), raw_dtype=kind)


def blocks(values: np.ndarray, kind: Type) -> np.ndarray:
    """A matrix in this type. The library cannot write K-quants, so those get random steps of about the right size."""
    if kind not in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
        return gguf.quants.quantize(values, kind)
    rng = np.random.default_rng(len(values))
    size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, (len(values), values.shape[1] // size, block_bytes), np.uint8)
    scale = np.float16(np.abs(values).max() / 2000)
    # Where the block has its float16: first, or last.
    places = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}[kind]
    for place, factor in zip(places, (1, 8), strict=False):
        data[..., place : place + 2] = np.frombuffer(np.float16(scale * factor).tobytes(), np.uint8)
    return data.reshape(len(values), -1)
