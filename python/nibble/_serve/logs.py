"""Logs: a line of JSON for each event, on standard error."""

import json
import logging
import sys
import time
from typing import TextIO


class Log:
    def __init__(self, out: TextIO | None = None):
        self._out = out or sys.stderr

    def say(self, level: str, **facts: object) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        known = {name: value for name, value in facts.items() if value is not None}
        line = json.dumps({"time": stamp, "level": level, **known}, ensure_ascii=True, default=str)
        try:
            self._out.write(line + "\n")
            self._out.flush()
        except (OSError, ValueError):
            pass  # whoever read it is gone; the server is not there for its log


class Handler(logging.Handler):
    """What libraries say, in the same form."""

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        facts = {"event": "library", "name": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[1]:
            facts["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self._log.say(record.levelname.lower(), **facts)
