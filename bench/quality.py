"""What importing a GGUF file costs in quality: perplexity on Nibble over that of the file's weights in eager torch.

    bench/quality.py MODEL.gguf [--text FILE]... [--tokens N] [--most RATIO]

Every token after the first is predicted from all before it. The texts are the project's licence and the lines that
./run searches. The program is exported with the logits of all tokens, into the cache (build/cache), once.
"""

import argparse
import math
import os
import sys
from pathlib import Path

import gguf
import numpy as np
import tokenizers
import torch

import nibble

ROOT = Path(__file__).resolve().parents[1]
TEXTS = [ROOT / "LICENSE", ROOT / "examples" / "lines.txt"]


class Eager:
    """The model of the file in plain torch, its weights dequantized by the library that reads them."""

    def __init__(self, path: Path):
        reader = gguf.GGUFReader(path)
        self.weights = {
            tensor.name: torch.from_numpy(
                np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
            ).reshape([int(size) for size in reversed(tensor.shape)])
            for tensor in reader.tensors
        }
        self.architecture = reader.fields["general.architecture"].contents()

        def fact(key: str, default=None):
            field = reader.fields.get(f"{self.architecture}.{key}")
            return default if field is None else field.contents()

        self.layers, self.heads = fact("block_count"), fact("attention.head_count")
        self.kv_heads = fact("attention.head_count_kv", self.heads)
        self.head = fact("attention.key_length", fact("embedding_length") // self.heads)
        self.factor = fact("rope.scaling.factor", 1.0) if fact("rope.scaling.type", "linear") == "linear" else 1.0
        self.epsilon, self.base = fact("attention.layer_norm_rms_epsilon"), fact("rope.freq_base", 10000.0)

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.epsilon)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """[heads, n, head]: numbers side by side are a pair, or, in qwen2's files, those half a head apart."""
        speeds = self.base ** -(torch.arange(0, self.head, 2, dtype=torch.float64) / self.head)
        speeds = speeds / self.factor / self.weights.get("rope_freqs.weight", torch.ones(1))
        angles = torch.outer(torch.arange(x.shape[1]), speeds)
        cos, sin = angles.cos().float(), angles.sin().float()
        if self.architecture == "qwen2":
            a, b = x.chunk(2, dim=-1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)

    @torch.no_grad()
    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """The logits of every token, [n, vocabulary]."""
        x = self.weights["token_embd.weight"][torch.from_numpy(tokens)]
        for layer in range(self.layers):
            block = f"blk.{layer}"
            y = self.norm(f"{block}.attn_norm", x)
            q, k, v = (
                self.linear(f"{block}.attn_{name}", y).view(len(x), -1, self.head).transpose(0, 1) for name in "qkv"
            )
            q, k = self.rotate(q), self.rotate(k)
            k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=0) for part in (k, v))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.linear(f"{block}.attn_output", y.transpose(0, 1).reshape(len(x), -1))
            y = self.norm(f"{block}.ffn_norm", x)
            y = torch.nn.functional.silu(self.linear(f"{block}.ffn_gate", y)) * self.linear(f"{block}.ffn_up", y)
            x = x + self.linear(f"{block}.ffn_down", y)
        head = "output" if "output.weight" in self.weights else "token_embd"
        return self.linear(head, self.norm("output_norm", x)).numpy()


class OnNibble:
    """The imported program, a chunk at a time."""

    def __init__(self, made):
        self.model, self.chunk = nibble.load(made.program), made.facts["chunk"]

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        starts = range(0, len(tokens), self.chunk)
        parts = [self.model.run(tokens[None, at : at + self.chunk], np.array([at])) for at in starts]
        return np.concatenate([np.asarray(logits)[0] for logits in parts])


def loss(logits: np.ndarray, tokens: np.ndarray) -> float:
    """The mean of -log p of each token but the first."""
    logits = logits[:-1].astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(logits)), tokens[1:]]
    return float((np.log(np.exp(logits).sum(axis=1)) - chosen).mean())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, action="append", help="a file of text; may be given several times")
    parser.add_argument("--tokens", type=int, default=400, help="of each text, at most; by default 400")
    parser.add_argument("--most", type=float, default=math.inf, help="exit with 1 if a ratio is above this")
    options = parser.parse_args()
    os.environ.setdefault("NIBBLE_CACHE", str(ROOT / "build" / "cache"))
    made = nibble.import_gguf(options.model, context_length=options.tokens, full_logits=True)
    tokenizer = tokenizers.Tokenizer.from_file(str(made.tokenizer))
    eager, imported = Eager(options.model), OnNibble(made)
    worst = 0.0
    device = imported.model.device
    print(f"{options.model.name} on {device.name}, {device.info.engine}: {made.facts['quantization']}")
    for text in options.text or TEXTS:
        tokens = np.array(tokenizer.encode(text.read_text()).ids[: options.tokens], np.int64)
        if len(tokens) < 2:
            print(f"{text.name}: too short to predict anything", file=sys.stderr)
            return 1
        before, after = loss(eager(tokens), tokens), loss(imported(tokens), tokens)
        ratio = math.exp(after - before)
        worst = max(worst, ratio)
        print(
            f"{text.name:12} {len(tokens):5} tokens   weights of the file {math.exp(before):8.3f}   "
            f"on Nibble {math.exp(after):8.3f}   ratio {ratio:.4f}",
            flush=True,
        )
    return int(worst > options.most)


if __name__ == "__main__":
    sys.exit(main())
