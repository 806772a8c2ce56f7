"""What a GGUF file says of its model's architecture."""

from dataclasses import dataclass

import numpy as np

from ._read import Gguf

_MOST = 1 << 20


@dataclass(frozen=True)
class Shape:
    architecture: str
    layers: int
    dim: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    context: int
    epsilon: float
    speeds: np.ndarray  # float64 [head / 2]: how fast each pair turns

    @property
    def rotates_halves(self) -> bool:
        """Llama's files have the two numbers of a pair side by side, Qwen's half a head apart."""
        return self.architecture == "qwen2"

    def rotations(self, context: int) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin of every place: [context, head / 2], or twice as wide for halves."""
        angles = np.outer(np.arange(context), self.speeds)
        if self.rotates_halves:
            angles = np.concatenate([angles, angles], axis=1)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def read_shape(file: Gguf) -> Shape:
    architecture = file.get("general.architecture", str)
    if architecture not in ("llama", "qwen2"):
        raise file.refuse(f"its architecture is '{architecture}', but only llama and qwen2 can be", "unsupported")

    def count(key: str, most: int = _MOST, default: int | None = None) -> int:
        return file.count(f"{architecture}.{key}", most, default)

    if file.get(f"{architecture}.expert_count", int, 0):
        raise file.refuse("it is a mixture of experts", "unsupported")
    dim, heads = count("embedding_length"), count("attention.head_count", 1024)
    kv_heads = count("attention.head_count_kv", 1024, heads)
    head = count("attention.key_length", 4096, max(1, dim // heads))
    if heads % kv_heads or head % 2:
        raise file.refuse(f"{heads} heads of {head} do not go with {kv_heads} heads of keys")
    for key in ("attention.value_length", "rope.dimension_count"):
        if (other := count(key, 4096, head)) != head:
            raise file.refuse(
                f"'{architecture}.{key}' is {other}, but only the size of a head, {head}, can be", "unsupported"
            )
    tokens = len(file.get("tokenizer.ggml.tokens", list))
    table = file.tensors.get("token_embd.weight")
    vocabulary = int(table.shape[-1]) if table is not None and len(table.shape) else tokens
    if tokens > vocabulary:
        raise file.refuse(f"it has {tokens} tokens, but an embedding for {vocabulary}")
    return Shape(
        architecture=architecture,
        layers=count("block_count", 1024),
        dim=dim,
        hidden=count("feed_forward_length"),
        heads=heads,
        kv_heads=kv_heads,
        head=head,
        vocabulary=vocabulary,
        context=count("context_length", 1 << 30),
        epsilon=file.real(f"{architecture}.attention.layer_norm_rms_epsilon"),
        speeds=_speeds(file, architecture, head),
    )


def _speeds(file: Gguf, architecture: str, head: int) -> np.ndarray:
    base = file.real(f"{architecture}.rope.freq_base", 10000.0)
    speeds = base ** -(np.arange(0, head, 2) / head)
    factor = f"{architecture}.rope.scaling.factor"
    scaling = file.get(f"{architecture}.rope.scaling.type", str, "linear" if file.has(factor) else "none")
    # The older name of the same.
    if (old := file.get(f"{architecture}.rope.scale_linear", (float, int), 1)) != 1:
        raise file.refuse(f"'{architecture}.rope.scale_linear' is {old}, but only 1 can be", "unsupported")
    if scaling == "linear":
        speeds = speeds / file.real(factor)
    elif scaling != "none":
        raise file.refuse(f"its positions are scaled by '{scaling}', but only 'linear' can be", "unsupported")
    # Llama 3.1 and later: a factor for each pair.
    if "rope_freqs.weight" in file.tensors:
        factors = file.values("rope_freqs.weight", head // 2).astype(np.float64)
        if not (factors > 0).all():
            raise file.refuse("tensor 'rope_freqs.weight' has a factor that is not positive")
        speeds = speeds / factors
    return speeds
