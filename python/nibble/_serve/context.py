"""What all requests share."""

from concurrent.futures import Executor
from dataclasses import dataclass

from .body import Bodies
from .logs import Log
from .metrics import Metrics
from .scheduler import Scheduler
from .served import Serving
from .unread import Unread


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 4 << 20
    body_seconds: float = 30
    seconds: float = 600  # of a request, with the time that it waits
    requests: int = 512  # that are read, run, wait or are being sent
    connections: int = 1024
    unread_bytes: int = 256 << 20  # of answers that wait to be read, all together
    choices: int = 16  # answers of one request


@dataclass
class Context:
    serving: Serving
    scheduler: Scheduler
    log: Log
    metrics: Metrics
    limits: Limits
    bodies: Bodies
    unread: Unread
    threads: Executor  # that check requests and make tokens of texts
    logs_prompts: bool = False
