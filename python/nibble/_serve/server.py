"""The server as a whole: sockets, threads, and an end in which answers may finish."""

import asyncio
import contextlib
import functools
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import uvicorn

from .._native import NibbleError
from .app import make_app
from .body import Bodies
from .connection import Connection
from .context import Context, Limits
from .errors import ApiError
from .guard import names_of
from .logs import Handler, Log
from .metrics import Metrics
from .scheduler import Scheduler
from .served import Served, Serving
from .unread import Unread

# That a client has to take the last of its answer, when all work has ended.
_LAST_SECONDS = 5
_PREPARING_THREADS = 4


@dataclass(frozen=True)
class Settings:
    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = None
    hosts: Sequence[str] = ()  # further names by which it may be called
    origins: Sequence[str] = ()
    queue: int = 64
    drain_seconds: float = 30
    logs_prompts: bool = False
    limits: Limits = field(default_factory=Limits)


class Server:
    """Serves models until it is told to stop. In a process's main thread, SIGTERM and SIGINT do that."""

    def __init__(
        self, models: Sequence[Served], settings: Settings, *, device=None, engine=None, log: Log | None = None
    ):
        self.settings, self.log = settings, log or Log()
        self.serving = Serving(models, device, engine)
        self.scheduler = Scheduler(
            queue=settings.queue,
            reopen=self.serving.reopen,
            has_failed=lambda: self.serving.device.has_failed,
            say=self.log.say,
        )
        self.metrics = Metrics()
        self.unread = Unread(settings.limits.unread_bytes)
        self._uvicorn: _Uvicorn | None = None
        self._shall_stop = False

    def listen(self) -> socket.socket:
        """First, because models may take long to load."""
        settings = self.settings
        try:
            family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # A reader that takes nothing for so long is cut off; nothing else would ever end it.
            with contextlib.suppress(AttributeError, OSError):
                milliseconds = int(settings.limits.seconds * 1000)
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
            listener.bind(address)
            listener.listen(256)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise NibbleError(f"cannot listen on {settings.host}, port {settings.port}: {reason}", "io") from None
        self.url = f"http://{_shown(listener)}"
        return listener

    def run(self, listener: socket.socket, on_start: Callable[[], None] = lambda: None) -> None:
        """Serves, and returns when it was stopped. The models must be open; they are closed in the end."""
        settings = self.settings
        threads = ThreadPoolExecutor(_PREPARING_THREADS, "nibble request")
        context = Context(
            self.serving,
            self.scheduler,
            self.log,
            self.metrics,
            settings.limits,
            Bodies(settings.limits),
            self.unread,
            threads,
            settings.logs_prompts,
        )
        hosts = names_of(settings.host, settings.hosts)
        app = make_app(context, key=settings.key, hosts=hosts, origins=settings.origins)
        handler = Handler(self.log)
        loggers = [logging.getLogger(name) for name in ("uvicorn", "asyncio")]
        for logger in loggers:
            logger.addHandler(handler)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            loop="asyncio",
            http=functools.partial(Connection, settings.limits),
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.limits.body_seconds,
            timeout_graceful_shutdown=int(settings.drain_seconds) + _LAST_SECONDS,
        )
        self._uvicorn = _Uvicorn(config, self.scheduler, settings.drain_seconds)
        self._uvicorn.should_exit = self._shall_stop
        self.scheduler.start()
        on_start()
        try:
            with _own_signals():
                self._uvicorn.run(sockets=[listener])
        finally:
            self.scheduler.close()
            threads.shutdown(cancel_futures=True)
            self.serving.close()
            for logger in loggers:
                logger.removeHandler(handler)
            self.log.say("info", event="stopped")

    def stop(self) -> None:
        """From any thread: begins the end."""
        self._shall_stop = True
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True


class _Uvicorn(uvicorn.Server):
    """When it ends, whatever runs may go on for a while; then it gets an error, and not just silence."""

    def __init__(self, config: uvicorn.Config, scheduler: Scheduler, drain_seconds: float):
        super().__init__(config)
        self._scheduler, self._drain_seconds = scheduler, drain_seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        why = ApiError(503, "the server is shutting down", code="shutting_down")
        asyncio.get_running_loop().call_later(self._drain_seconds, self._scheduler.cancel_all, why)
        await super().shutdown(sockets)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """uvicorn raises the signals again that ended it, which would end the process before it is done."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, lambda *_: None) for number in numbers]
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
