"""A command in a terminal of its own."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time

SECONDS = 300


class Terminal:
    def __init__(self, *command):
        self.process, self.master = None, None
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*map(str, command)], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "dumb"},
            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def wait_for(self, pattern: str) -> str:
        """What was written up to and with the pattern, from where the last one ended."""
        end = time.monotonic() + SECONDS
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, self.seen
            if select.select([self.master], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended: {self.seen}") from None
        text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return text

    def write(self, text: str) -> None:
        os.write(self.master, text.encode())

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupt_prompt(self, pattern: str) -> None:
        """As a person would, again until something happens: between showing its prompt and waiting for a key, readline
        does not look for signals, so one that comes there is noticed at the next key or signal."""
        for _ in range(SECONDS):
            self.interrupt()
            if select.select([self.master], [], [], 1)[0]:
                break
        self.wait_for(pattern)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_exception) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)
