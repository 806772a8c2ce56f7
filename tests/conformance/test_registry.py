"""Nibble has every operator that the stock exporter may put into a program, apart from those listed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from executorch.backends.vulkan.op_registry import vulkan_supported_ops
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers llama)

from support.missing import MISSING

pytestmark = pytest.mark.host

COMMAND = os.environ.get("NIBBLE_COMMAND") or shutil.which("nibble", path=str(Path(sys.executable).parent))

# Names that the partitioner takes, but that no program has.
NEVER_WRITTEN = {
    "getitem": "written as the value that it picks",
    "_assert_scalar.default": "removed with the other assertions",
    "sym_constrain_range_for_size.default": "removed with the other assertions",
}


def written_name(key) -> str:
    """What the exporter's serializer calls an operator of the registry."""
    if not isinstance(key, str):
        return key.__name__
    namespace, name = key.split("::")
    overload = getattr(getattr(torch.ops, namespace), name).default
    # What changes its arguments comes back out of a wrapper as torch's own operator; all else is of the edge dialect.
    return overload.__name__ if overload._schema.is_mutable else f"{namespace}.{overload.__name__}"


def test_nibble_has_what_the_exporter_may_write():
    listed = subprocess.run([COMMAND, "ops", "--json"], capture_output=True, text=True, check=True).stdout
    here = {op["name"] for op in json.loads(listed)}
    registered = {written_name(key) for key in vulkan_supported_ops}
    assert registered >= NEVER_WRITTEN.keys(), "names that the exporter does not register any more"
    assert not here & NEVER_WRITTEN.keys()
    assert registered - NEVER_WRITTEN.keys() - here == MISSING
