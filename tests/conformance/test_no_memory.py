"""Too little memory is an error, not the end of the process."""

import subprocess
import sys

import pytest

from support.vk00 import Blob

pytest.importorskip("nibble")

# What a load takes beyond what the process has already is limited, in steps from nothing on.
LOAD = """
import resource, sys
from pathlib import Path
import numpy as np
import nibble

def address_space():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

device = nibble.Device()
small, large = (Path(path) for path in sys.argv[1:])
x = np.arange(-3, 5, dtype=np.float32)
nibble.load(small, device=device).run(x)
refused = 0
for kilobytes in (0, 1000, 4000):
    limit = address_space() + kilobytes * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        nibble.load(large, device=device)
    except nibble.NibbleError as error:
        assert error.code == "out_of_memory", error
        refused += 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert np.array_equal(nibble.load(small, device=device).run(x), np.maximum(x, 0))
print(refused)
"""


def chain(length: int) -> bytes:
    blob = Blob()
    value = blob.tensor("float32", [8])
    blob.inputs = [value]
    for i in range(length):
        result = blob.tensor("float32", [8])
        blob.op("aten.relu.default" if i % 2 == 0 else "aten.sigmoid.default", [value, result])
        value = result
    blob.outputs = [value]
    return blob.pte()


@pytest.mark.host
def test_a_load_without_memory_is_an_error_and_the_next_one_is_right(tmp_path):
    (tmp_path / "small.pte").write_bytes(chain(1))
    (tmp_path / "large.pte").write_bytes(chain(20000))
    command = [sys.executable, "-c", LOAD, str(tmp_path / "small.pte"), str(tmp_path / "large.pte")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
