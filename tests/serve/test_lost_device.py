"""A device that is lost under a server: what runs has an error, what comes later an answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nibble
from nibble._serve.served import ServedText
from nibble._text.generator import Generator
from support.needs import needs_file
from support.served_model import endless
from support.serving import Running, Wire, wait_for

CHAT = "/v1/chat/completions"
SHORT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "temperature": 0}
ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "build" / "release" / "tests" / "libnibble_faults.so"


def test_requests_in_flight_have_an_error_and_later_ones_work(folder, monkeypatch):
    with Running([ServedText("tiny", str(folder), 2)]) as running:
        wanted = running.post(CHAT, SHORT).json["choices"]
        old = running.server.serving.device
        wire = Wire(running, CHAT, endless(stream=True))
        wire.read_until(b'"delta":{"content":"')

        def lose(self, allowed):
            monkeypatch.undo()
            monkeypatch.setattr(nibble.Device, "has_failed", property(lambda device: device is old))
            raise nibble.NibbleError("the device is lost: it was only a test", "device_lost")

        monkeypatch.setattr(Generator, "next", lose)
        last = [line for line in wire.read_all().decode().splitlines() if line.startswith("data: ")][-1]
        error = json.loads(last.removeprefix("data: "))["error"]
        assert (error["code"], error["type"]) == ("device_lost", "server_error")
        wait_for(lambda: running.server.scheduler.reopened == 1)
        answer = running.post(CHAT, SHORT).json
        assert answer["choices"] == wanted
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert running.server.serving.device is not old
        assert running.get("/health").status == 200
        events = [line["event"] for line in running.logs]
        assert events.index("device_lost") < events.index("device_opened_again")


def test_a_device_that_cannot_be_opened_is_tried_again_with_the_next_request(folder, monkeypatch):
    with Running([ServedText("tiny", str(folder), 2)]) as running:
        wanted = running.post(CHAT, SHORT).json["choices"]

        def fail(*_):
            raise nibble.NibbleError("it was only a test", "device_lost")

        with monkeypatch.context() as patch:
            patch.setattr(Generator, "next", fail)
            patch.setattr(nibble.Device, "has_failed", True)
            patch.setattr("nibble._serve.served.Device", fail)
            for _ in range(2):
                assert running.post(CHAT, SHORT).json["error"]["code"] == "device_lost"
            health = running.get("/health")
            assert (health.status, health.json["status"]) == (503, "device lost")
        assert running.post(CHAT, SHORT).json["choices"] == wanted
        assert running.get("/health").status == 200


SCRIPT = """
import os, sys
sys.path[:0] = sys.argv[1:3]
from faults.trial import use_driver
driver = use_driver(os.environ["VK_ICD_FILENAMES"])
from nibble._serve.served import ServedText
from serve.test_lost_device import CHAT, SHORT
from support.serving import Running
with Running([ServedText("tiny", sys.argv[3], 2)]) as running:
    wanted = running.post(CHAT, SHORT).json["choices"]
    for number in range(1, 4):
        driver.nibble_faults_set(b"vkQueueSubmit", 1, -4)
        lost = running.post(CHAT, SHORT)
        assert (lost.status, lost.json["error"]["code"]) == (503, "device_lost"), lost.body
        assert int(lost.headers["retry-after"]) >= 1
        assert running.post(CHAT, SHORT).json["choices"] == wanted
        assert running.server.scheduler.reopened == number
assert (driver.nibble_faults_devices(), driver.nibble_faults_memories()) == (0, 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("NIBBLE_ENGINE") != "dawn", reason="wgpu-native aborts where a driver loses a device"
)
def test_a_device_that_the_driver_loses_is_opened_again_and_nothing_of_the_old_one_stays(folder):
    needs_file(DRIVER, "the driver that fails is not built: ./test full does it")
    paths = [str(ROOT / "tests"), str(ROOT / "tests" / "conformance"), str(folder)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *paths], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
