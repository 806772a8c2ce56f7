"""The adapter is chosen as for the conformance tests; at the end a table says how the catalogue's suites did."""

import os
from collections import Counter
from pathlib import Path

import pytest

from conformance.conftest import device_name, pytest_configure  # noqa: F401


@pytest.fixture(scope="session")
def catalogue() -> Path:
    """The folder of exported cases."""
    from peer.export_catalogue import DEFAULT_OUT

    return Path(os.environ.get("NIBBLE_PEER", DEFAULT_OUT))


def pytest_terminal_summary(terminalreporter):
    from peer.results import MISSING, PASSED, RAN

    if not RAN:
        return
    terminalreporter.section("the peer's catalogue")
    ran, passed = Counter(RAN), Counter(PASSED)
    for suite in ran:
        missing = f"  {', '.join(sorted(MISSING[suite]))} missing" if MISSING[suite] else ""
        terminalreporter.write_line(f"{suite:32}{passed[suite]:3} of {ran[suite]:3}{missing}")
    terminalreporter.write_line(f"{'all suites':32}{passed.total():3} of {ran.total():3}")
