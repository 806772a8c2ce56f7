"""Nibble runs ExecuTorch programs (.pte) on any GPU through WebGPU.

    import nibble
    model = nibble.load("model.pte")
    result = model([[1, 2, 3]])

Importing it also registers it with the stock `executorch` package, if that is installed: programs from the stock Vulkan
exporter then run on the GPU through `executorch.runtime` as well.
"""

import importlib

from ._export import Exported, export, export_embedding
from ._load import load, tune
from ._native import NibbleError, lib
from ._program import Device, DeviceInfo, Model, Session, State, TensorSpec, devices
from ._quantize import dequantize_q4, quantize_q4
from ._register import Registration, registered

__version__ = lib.nibble_version().decode()

__all__ = [
    "Device",
    "DeviceInfo",
    "Encoder",
    "Exported",
    "Generation",
    "LanguageModel",
    "Model",
    "NibbleError",
    "Partitioner",
    "Piece",
    "Registration",
    "Session",
    "State",
    "TensorSpec",
    "TextSession",
    "dequantize_q4",
    "devices",
    "export",
    "export_embedding",
    "generate",
    "import_gguf",
    "load",
    "quantize_q4",
    "registered",
    "tune",
]


# What is imported when it is first used, because it needs packages that Nibble itself does not, or takes a while.
_LATER = {
    "Encoder": "_encoder",
    "Generation": "_text.generation",
    "LanguageModel": "_text.language_model",
    "Partitioner": "_partition",
    "Piece": "_text.generation",
    "TextSession": "_text.language_model",
    "generate": "_text.language_model",
    "import_gguf": "_gguf",
}


def __getattr__(name: str):
    if name in _LATER:
        return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module 'nibble' has no attribute '{name}'")
