"""Llama-style models in NumPy, from their parameters and (quantized) weights: the second opinion on every logit."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Weight:
    """A matrix [rows, width], or steps of 4 bits and one scale per group of a row."""

    values: np.ndarray
    scales: np.ndarray | None = None

    def full(self) -> np.ndarray:
        if self.scales is None:
            return self.values.astype(np.float32)
        group = self.values.shape[1] // self.scales.shape[1]
        return self.values.astype(np.float32) * np.repeat(self.scales.astype(np.float32), group, axis=1)


def quantize_rows(x: np.ndarray) -> np.ndarray:
    """Rows in 8 bits, each with a step and a zero point of its own, and back: what a linear of 8da4w sees.

    The step spans the row's range with 0 in it; the zero point comes from the end that it serves better.
    """
    smallest_step = np.float32(6.1e-5)
    low = np.minimum(x.min(-1, keepdims=True), 0)
    high = np.maximum(x.max(-1, keepdims=True), 0)
    step = (high - low) / np.float32(255)
    if (step < smallest_step).any():
        raise ValueError("a row is too flat: its step would be widened, which is not worked out here")
    from_low, from_high = np.float32(-128) - low / step, np.float32(127) - high / step
    low_is_better = 128 - np.abs(low / step) < 127 - np.abs(high / step)
    zero = np.clip(np.rint(np.where(low_is_better, from_low, from_high)), -128, 127)
    return (np.clip(np.rint(x / step) + zero, -128, 127) - zero) * step


class Model:
    """One model and its caches. `weights` has the names of the checkpoint, without the ending `.weight`."""

    def __init__(self, params: dict, weights: dict[str, Weight], context: int, quantize_activations: bool):
        self.params = params
        self.weights = {name: weight.full() for name, weight in weights.items()}
        self.quantize_activations = quantize_activations
        self.heads, self.kv_heads = params["n_heads"], params["n_kv_heads"]
        self.head = params.get("head_dim", params["dim"] // self.heads)
        self.cos, self.sin = self._rotations(context)
        shape = (params["n_layers"], context, self.kv_heads, self.head)
        self.keys, self.values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def _rotations(self, context: int) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin [context, head / 2] of every place."""
        speeds = self.params["rope_theta"] ** -(np.arange(0, self.head, 2) / self.head)
        if self.params.get("use_scaled_rope"):
            # Llama 3.1 and later: waves longer than the context of the training are slowed by 32, short ones are not.
            waves = 8192 * speeds / (2 * math.pi)
            share = np.clip((waves - 1) / 3, 0, 1)
            speeds = speeds * (share + (1 - share) / 32)
        angles = np.outer(np.arange(context), speeds)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        if self.quantize_activations:
            x = quantize_rows(x)
        return x @ self.weights[name].T + self.weights.get(f"{name}.bias", np.float32(0))

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        scale = np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(self.params["norm_eps"]))
        return x / scale * self.weights[name]

    def _rotate(self, x: np.ndarray, place: int) -> np.ndarray:
        """Pairs are neighbours, or, as Hugging Face has them, the two halves."""
        cos, sin = (table[place : place + len(x), None] for table in (self.cos, self.sin))
        result = np.empty_like(x)
        half = self.head // 2
        pair = (
            (slice(half), slice(half, None))
            if self.params.get("use_hf_rope")
            else (slice(0, None, 2), slice(1, None, 2))
        )
        first, second = (x[..., one] for one in pair)
        result[..., pair[0]] = first * cos - second * sin
        result[..., pair[1]] = first * sin + second * cos
        return result

    def _attention(self, layer: int, x: np.ndarray, place: int) -> np.ndarray:
        name, length = f"layers.{layer}.attention", len(x)
        q = self._linear(f"{name}.wq", x).reshape(length, self.heads, self.head)
        k = self._linear(f"{name}.wk", x).reshape(length, self.kv_heads, self.head)
        v = self._linear(f"{name}.wv", x).reshape(length, self.kv_heads, self.head)
        if self.params.get("use_qk_norm"):
            q, k = self._norm(f"{name}.q_norm_fn", q), self._norm(f"{name}.k_norm_fn", k)
        end = place + length
        self.keys[layer, place:end] = self._rotate(k, place)
        self.values[layer, place:end] = v
        q = self._rotate(q, place)
        ahead = np.arange(end) > np.arange(place, end)[:, None]
        mixed = np.empty_like(q)
        for head in range(self.heads):
            shared = head * self.kv_heads // self.heads
            scores = q[:, head] @ self.keys[layer, :end, shared].T / np.float32(math.sqrt(self.head))
            scores[ahead] = -np.inf
            shares = np.exp(scores - scores.max(1, keepdims=True))
            mixed[:, head] = shares / shares.sum(1, keepdims=True) @ self.values[layer, :end, shared]
        return self._linear(f"{name}.wo", mixed.reshape(length, -1))

    def run(self, tokens: np.ndarray, place: np.ndarray) -> np.ndarray:
        """tokens [1, n], place [1] → logits [1, vocabulary] of the last token."""
        x = self.weights["tok_embeddings"][tokens[0]]
        for layer in range(self.params["n_layers"]):
            name = f"layers.{layer}"
            x = x + self._attention(layer, self._norm(f"{name}.attention_norm", x), int(place[0]))
            wide = self._norm(f"{name}.ffn_norm", x)
            gate = self._linear(f"{name}.feed_forward.w1", wide)
            inner = gate / (1 + np.exp(-gate)) * self._linear(f"{name}.feed_forward.w3", wide)
            x = x + self._linear(f"{name}.feed_forward.w2", inner)
        return self._linear("output", self._norm("norm", x[-1:]))
