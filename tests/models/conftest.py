"""The adapter is chosen as for the conformance tests; at the end what was measured is written down."""

import json
import os
from pathlib import Path

import pytest

from conformance.conftest import device_name, pytest_configure  # noqa: F401


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of exported models."""
    from models.export_models import DEFAULT_OUT

    return Path(os.environ.get("NIBBLE_MODELS", DEFAULT_OUT))


def pytest_sessionfinish():
    from models.measured import ROWS

    if ROWS and (out := os.environ.get("NIBBLE_RAN")):
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(json.dumps(ROWS, indent=1))
