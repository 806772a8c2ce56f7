"""Cheap models. Ray and pyarrow lie beside .venv: ./test full installs them."""

import os
from pathlib import Path

import pytest

from conformance.conftest import device_name, pytest_configure  # noqa: F401
from serve.conftest import folder, served  # noqa: F401

# Nothing is sent anywhere.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def pytest_collection_modifyitems(items):
    """Of this folder; pytest hands over all that it found."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    from support.sum_encoder import make_encoder

    return make_encoder(tmp_path_factory.mktemp("encoder") / "sum")
