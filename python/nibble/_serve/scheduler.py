"""Who computes next. One thread for a device takes the requests of all its models, and lets each that runs make one
step in its turn: a chunk of a prompt, a token, or a batch of texts. So a long prompt does not stop the answers of
others, and the event loop waits for nothing."""

import contextlib
import functools
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .._native import OF_THE_REQUEST, NibbleError
from .errors import ApiError, device_failed, from_nibble
from .work import Work

# What leaves a session as it was.
_SOUND = (*OF_THE_REQUEST, "cancelled")
_SECONDS_AT_FIRST = 1.0  # that a request is thought to take, before any has ended


class Ticket:
    """The right to be one of the requests that run or wait. Given back once, when the work has ended or never began."""

    def __init__(self, give_back: Callable[[], None]):
        self._give_back = give_back
        self._lock = threading.Lock()

    def give_back(self) -> None:
        with self._lock:
            give_back, self._give_back = self._give_back, lambda: None
        give_back()


@dataclass
class _Load:
    """Of a place."""

    admitted: int = 0
    seconds: float = _SECONDS_AT_FIRST  # that its requests take, of late


class Scheduler:
    """queue: how many requests may wait at each place, besides those that run there. reopen: opens the device and all
    models again, after it was lost. has_failed: whether it was."""

    def __init__(
        self, *, queue: int, reopen: Callable[[], None], has_failed: Callable[[], bool], say: Callable[..., None]
    ):
        self._queue, self._reopen, self._has_failed, self._say = queue, reopen, has_failed, say
        self._changed = threading.Condition()
        self._loads: defaultdict[object, _Load] = defaultdict(_Load)
        self._waiting: deque[tuple[Work, Ticket]] = deque()
        self._running: list[tuple[Work, Ticket]] = []
        self._over: ApiError | None = None  # why it takes no more
        self._failure: BaseException | None = None
        self._lost: NibbleError | None = None
        self.steps = 0
        self.reopened = 0
        self.steps_after_cancel = 0  # the most of any request
        self._thread = threading.Thread(target=self._run, name="nibble scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def lost(self) -> NibbleError | None:
        """Why nothing can be computed now."""
        return self._lost

    @property
    def failure(self) -> BaseException | None:
        """What ended the thread, which nothing should: nothing is computed any more."""
        return self._failure

    @property
    def admitted(self) -> int:
        """Requests that have a ticket, at all places."""
        with self._changed:
            return sum(load.admitted for load in self._loads.values())

    def admit(self, place: Any) -> Ticket:
        """For a request that will run at this place; where too many wait, the client shall come again later."""
        with self._changed:
            if self._over:
                raise self._over.with_traceback(None)
            load = self._loads[place]
            if load.admitted < place.slots + self._queue:
                load.admitted += 1
                return Ticket(functools.partial(self._discharge, load))
            seconds = math.ceil(load.seconds * load.admitted / place.slots)
            message = f"{load.admitted} requests for the model run or wait, which is as many as may; come again later"
            raise ApiError(429, message, code="rate_limit_exceeded", retry_after=min(max(seconds, 1), 60))

    def _discharge(self, load: _Load) -> None:
        with self._changed:
            load.admitted -= 1

    def submit(self, work: Work, ticket: Ticket) -> None:
        with self._changed:
            if self._over:
                raise self._over.with_traceback(None)
            self._waiting.append((work, ticket))
            self._changed.notify()

    def cancel(self, work: Work, why: ApiError) -> None:
        work.cancel(why)
        with self._changed:
            self._changed.notify()

    def cancel_all(self, why: ApiError) -> None:
        """And takes no more."""
        with self._changed:
            self._over = self._over or why
            # Whoever is just beginning is among those that wait.
            works = [work for work, _ in (*self._waiting, *self._running)]
            self._changed.notify()
        for work in works:
            work.cancel(why)

    def close(self) -> None:
        """Ends what there is, and the thread."""
        self.cancel_all(ApiError(503, "the server is shutting down", code="shutting_down"))
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._await_work():
                self._round()
        except BaseException as error:
            self._give_up(error)

    def _round(self) -> None:
        if self._lost:  # and could not be opened the last time
            self._open_again()
        self._begin_waiting()
        for work, ticket in tuple(self._running):
            if not self._lost:
                self._turn(work, ticket)
        if self._lost:
            self._open_again()

    def _give_up(self, error: BaseException) -> None:
        """The thread ends: nobody shall wait for it."""
        why = ApiError(500, "the server failed, and must be started again", code="internal")
        with self._changed:
            self._failure, self._over = error, why
            left, self._waiting, self._running = (*self._waiting, *self._running), deque(), []
        for work, ticket in left:
            work.finish(why)
            ticket.give_back()
        self._say("error", event="scheduler_failed", error=f"{type(error).__name__}: {error}")

    def _await_work(self) -> bool:
        with self._changed:
            while not self._waiting and not self._running:
                if self._over:
                    return False
                self._changed.wait()
        return True

    def _begin_waiting(self) -> None:
        """Those that came first, as far as there is room where they run. A device that is lost meanwhile has none."""
        with self._changed:
            queue = tuple(self._waiting)
        for work, ticket in queue:
            in_use = sum(other.place is work.place for other, _ in self._running)
            if work.cancelled_for:
                self._end(work, ticket)
            elif in_use < work.place.slots and not self._lost:
                work.began = time.monotonic()
                with self._failing(work, ticket):
                    work.begin()
                    self._running.append((work, ticket))
            else:
                continue
            # Only now: at any time each is found among those that wait or those that run.
            with self._changed:
                self._waiting.remove((work, ticket))

    def _turn(self, work: Work, ticket: Ticket) -> None:
        with self._failing(work, ticket):
            if work.cancelled_for is None:
                work.steps += 1
                self.steps += 1
                if not work.step():
                    return
            self._end(work, ticket)

    @contextlib.contextmanager
    def _failing(self, work: Work, ticket: Ticket) -> Iterator[None]:
        """What goes wrong is the work's end, and the device's if it is lost."""
        try:
            yield
        except NibbleError as error:
            if self._has_failed():
                self._lost = error
            told = device_failed(error) if self._lost else from_nibble(error)
            self._end(work, ticket, told, is_sound=error.code in _SOUND)
        except BaseException as error:  # whatever it is, others go on
            self._say("error", event="step", error=f"{type(error).__name__}: {error}")
            self._end(work, ticket, ApiError(500, "the server failed", code="internal"), is_sound=False)

    def _end(self, work: Work, ticket: Ticket, error: ApiError | None = None, is_sound: bool = True) -> None:
        self._running = [pair for pair in self._running if pair[0] is not work]
        try:
            work.leave(is_sound)
        except BaseException as failure:  # the work has ended all the same
            if isinstance(failure, NibbleError) and self._has_failed():
                self._lost = failure
            self._say("error", event="leave", error=f"{type(failure).__name__}: {failure}")
        if work.steps_at_cancel is not None:
            self.steps_after_cancel = max(self.steps_after_cancel, work.steps - work.steps_at_cancel)
            error = work.cancelled_for
        work.finish(error)
        ticket.give_back()
        if work.began:
            with self._changed:
                load = self._loads[work.place]
                load.seconds += (work.ended - work.began - load.seconds) / 8

    def _open_again(self) -> None:
        """Whoever ran has its error. Whoever waits does not know."""
        error = self._lost
        self._say("error", event="device_lost", error=str(error))
        for work, ticket in tuple(self._running):
            self._end(work, ticket, device_failed(error), is_sound=False)
        try:
            self._reopen()
            self._lost = None
            self.reopened += 1
            self._say("info", event="device_opened_again")
        except Exception as failure:  # a folder that was moved is no error of the library
            self._say("error", event="device_not_opened", error=str(failure))
            with self._changed:
                queue, self._waiting = list(self._waiting), deque()
            message = f"the device was lost, and cannot be opened again: {failure}"
            for work, ticket in queue:
                self._end(work, ticket, ApiError(503, message, code="device_lost", retry_after=5))
