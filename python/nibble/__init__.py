"""Nibble runs ExecuTorch programs (.pte) on any GPU through WebGPU.

    import nibble
    model = nibble.load("model.pte")
    result = model([[1, 2, 3]])

Importing it also registers it with the stock `executorch` package, if that is installed: programs from the stock Vulkan
exporter then run on the GPU through `executorch.runtime` as well.
"""

from ._export import Exported, export, export_embedding
from ._load import load
from ._native import NibbleError, lib
from ._program import Device, DeviceInfo, Model, Session, State, TensorSpec, devices
from ._quantize import dequantize_q4, quantize_q4
from ._register import Registration, registered

__version__ = lib.nibble_version().decode()

__all__ = [
    "Device",
    "DeviceInfo",
    "Exported",
    "Model",
    "NibbleError",
    "Partitioner",
    "Registration",
    "Session",
    "State",
    "TensorSpec",
    "dequantize_q4",
    "devices",
    "export",
    "export_embedding",
    "load",
    "quantize_q4",
    "registered",
]


def __getattr__(name: str):
    # It needs torch and executorch, which Nibble does not.
    if name == "Partitioner":
        from ._partition import Partitioner

        return Partitioner
    raise AttributeError(f"module 'nibble' has no attribute '{name}'")
