"""What a language model is to the tests: random weights, the stock `export_llama`, calls and their logits."""

import contextlib
import inspect
import io
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conformance import llm_reference
from conformance.case import Arrays, as_tensor

CONTEXT = 64
# A dynamic program takes one token fewer than it is told.
MOST = 31


@dataclass(frozen=True)
class Llm:
    """A model, its export, and calls on one loaded method: tokens int64 [1, n] and place int64 [1] → logits."""

    name: str
    params: dict
    model_class: str = "llama3_2"
    # 4w, 8da4w, or None for float32.
    quantization: str | None = "4w"
    group: int = 32
    dynamic: bool = True
    half: bool = False
    # Against eager torch; and against NumPy, which rounds activations by the rule of the operators.
    atol: float = 1e-3
    numpy_atol: float = 1e-3
    rtol: float = 0.0
    shard_bytes: int = 0
    context: int = CONTEXT
    outside: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """What the program and its results are made from; not what is allowed."""
        what = (self.params, self.model_class, self.quantization, self.group, self.dynamic, self.half, self.context)
        return f"{what}\n{inspect.getsource(llm_reference)}\n{Path(__file__).read_text()}"

    def _generator(self, use: int) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(self.name.encode()), use])

    def make_calls(self) -> list[Arrays]:
        return scripted_calls(self._generator(0), self.params["vocab_size"], MOST if self.dynamic else 1)

    def write(self, folder: Path) -> tuple[list[Arrays], dict[str, list[Arrays]]]:
        """Writes model.pte; gives the calls and what they should give, by way."""
        with tempfile.TemporaryDirectory() as place, quiet():
            config = self._config(Path(place))
            results = self._run(config)
            from executorch.examples.models.llama.export_llama_lib import export_llama

            config.export.output_dir = str(folder)
            export_llama(config)
        return results

    def _config(self, folder: Path):
        """Writes a checkpoint with random weights; gives the exporter's settings for it."""
        import torch
        from executorch.examples.models.llama.llama_transformer import construct_transformer
        from executorch.examples.models.llama.model_args import ModelArgs
        from executorch.extension.llm.export.config import llm_config

        with torch.device("meta"):
            model = construct_transformer(ModelArgs(**self.params))
        rng = self._generator(1)
        state = {
            name: as_tensor(random_weight(rng, name, tuple(meta.shape))) for name, meta in model.state_dict().items()
        }
        torch.save(state, folder / "checkpoint.pth")
        (folder / "params.json").write_text(json.dumps(self.params))

        config = llm_config.LlmConfig()
        config.base.model_class = llm_config.ModelType(self.model_class)
        config.base.checkpoint, config.base.params = str(folder / "checkpoint.pth"), str(folder / "params.json")
        config.model.use_kv_cache = config.model.use_sdpa_with_kv_cache = True
        config.model.enable_dynamic_shape = self.dynamic
        config.model.dtype_override = llm_config.DtypeOverride("fp32")
        if self.quantization:
            config.quantization.qmode, config.quantization.group_size = self.quantization, self.group
            config.quantization.embedding_quantize = "4,32"
        config.export.max_seq_length, config.export.max_context_length = MOST + 1, self.context
        config.export.output_name = "model"
        config.backend.vulkan.enabled, config.backend.vulkan.force_fp16 = True, self.half
        return config

    def _run(self, config) -> tuple[list[Arrays], dict[str, list[Arrays]]]:
        import torch
        from executorch.examples.models.llama.export_llama_lib import get_llama_model

        eager, _, _ = get_llama_model(config)
        weights = {name: read_weight(module) for name, module in eager.named_modules() if hasattr(module, "weight")}
        weights |= {
            f"{name}.bias": llm_reference.Weight(module.bias.detach().numpy())
            for name, module in eager.named_modules()
            if getattr(module, "bias", None) is not None
        }
        reference = llm_reference.Model(self.params, weights, self.context, self.quantization == "8da4w")

        def by_torch(tokens: np.ndarray, place: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return eager(as_tensor(tokens), {"input_pos": as_tensor(place)}).numpy().copy()

        calls, results = self.run_calls(by_torch)
        return calls, {"torch": results, "numpy": [(reference.run(t, p),) for t, p in calls]}

    def run_calls(self, run: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[list[Arrays], list[Arrays]]:
        """Makes the calls; gives them and their logits."""
        calls = self.make_calls()
        return calls, [(run(t, p),) for t, p in calls]


def scripted_calls(rng: np.random.Generator, vocabulary: int, most: int) -> list[Arrays]:
    """A prompt and 20 single tokens; another from place 0; the cache filled to its end; then prompts of every length.

    Each of the last is followed by a token, which sees what the prompt has left in the caches. A program that takes
    one token at a time gets a prompt in as many calls.
    """
    calls = []

    def feed(place: int, length: int) -> int:
        for start in range(place, place + length, most):
            count = min(most, place + length - start)
            calls.append((rng.integers(0, vocabulary, (1, count)), np.array([start])))
        return place + length

    place = feed(0, 9)
    for _ in range(20):
        place = feed(place, 1)
    place = feed(0, 5)
    for _ in range(3):
        place = feed(place, 1)
    place = feed(place, 7)
    place = feed(place, CONTEXT - 1 - place)
    feed(place, 1)
    for length in rng.permutation(most if most > 1 else 8) + 1:
        feed(feed(0, int(length)), 1)
    return calls


def random_weight(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Such that queries, keys and values have a deviation of about 1, and logits of about 1/2."""
    values = rng.standard_normal(shape, np.float32)
    if name.endswith(".bias"):
        return values / 4
    if len(shape) == 1:
        return 1 + values / 4
    if name.startswith("tok_embeddings"):
        return values
    return values * np.float32((0.5 if name.startswith("output") else 1) / shape[1] ** 0.5)


def read_weight(module) -> llm_reference.Weight:
    """The parameters of an eager module: plain, quantized by torchao, or the exporter's own 4-bit embedding."""
    if hasattr(module.weight, "qdata"):
        return llm_reference.Weight(module.weight.qdata.numpy(), module.weight.scale.numpy())
    values = module.weight.detach().numpy()
    if not hasattr(module, "scales"):
        return llm_reference.Weight(values)
    # Two steps in a byte, the first one in its upper half.
    steps = np.stack([values >> 4, values & 15], axis=-1).reshape(len(values), -1).astype(np.int8) - 8
    return llm_reference.Weight(steps, module.scales.numpy().reshape(len(values), -1))


@contextlib.contextmanager
def quiet():
    """The exporter prints what it does."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stderr(nothing),
    ):
        yield
