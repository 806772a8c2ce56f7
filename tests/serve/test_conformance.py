"""The suite that the wheel of ExecuTorch has for servers of this protocol."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

SUITE = Path("examples", "llm_server", "conformance", "test_openai_contract.py")


def run_suite(url: str, model: str) -> tuple[int, list[str]]:
    """How many of its tests passed, and which did not."""
    folder = importlib.util.find_spec("executorch").submodule_search_locations[0]
    environment = {**os.environ, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": model}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", Path(folder) / SUITE],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    found = re.findall(r"::(\w+) (PASSED|FAILED|SKIPPED|ERROR)", done.stdout)
    return sum(how == "PASSED" for _, how in found), [name for name, how in found if how != "PASSED"]


def test_the_peers_suite_passes(served):
    assert run_suite(served.url, "tiny") == (7, [])
