"""What the scheduler works on: a request, step by step. One step is at most one call of a program."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._native import NibbleError
from .._text.generation import Generation, Prepared
from .errors import ApiError
from .events import Began, Done, Encoded, Ended, Event, Failed, Wrote

if TYPE_CHECKING:
    from .served import ServedEncoder, ServedText


class Work:
    """A request. The scheduler's thread begins it, steps it and ends it; cancel() comes from any thread."""

    def __init__(self, post: Callable[[Event], None]):
        self._post = post
        self._lock = threading.Lock()
        self.cancelled_for: ApiError | None = None
        self.steps = 0
        self.steps_at_cancel: int | None = None
        self.asked, self.began, self.first, self.ended = time.monotonic(), None, None, None

    @property
    def place(self) -> object:
        """Works of one place share what they run on; at most as many run at once as `place.slots` says."""
        raise NotImplementedError

    def begin(self) -> None:
        """Takes what it runs on."""

    def step(self) -> bool:
        """Whether that was all."""
        raise NotImplementedError

    def leave(self, is_sound: bool) -> None:
        """Gives back what it ran on; not sound: that cannot be used any more."""

    def _interrupt(self) -> None:
        """Ends the step that another thread is in, if there is one."""

    def cancel(self, why: ApiError) -> None:
        """Ends it within a step. From any thread; the first reason counts."""
        with self._lock:
            if self.cancelled_for is None:
                self.cancelled_for, self.steps_at_cancel = why, self.steps
                self._interrupt()

    def finish(self, error: ApiError | None = None) -> None:
        """Tells the end, once."""
        if self.ended is None:
            self.ended = time.monotonic()
            self._post(Done() if error is None else Failed(error))


class TextWork(Work):
    """One or several answers, one after the other in one session: of each but the first, the prompt is computed."""

    def __init__(self, model: "ServedText", choices: Sequence[Prepared], post: Callable[[Event], None]):
        super().__init__(post)
        self._model, self._choices = model, choices
        self._session, self._generation, self._choice = None, None, 0

    @property
    def place(self) -> "ServedText":
        return self._model

    def begin(self) -> None:
        self._session = self._model.take_session(self._choices[0].tokens)

    def step(self) -> bool:
        if self._generation is None and not self._begin_choice():
            return False
        generation = self._generation
        piece = generation.step()
        if piece is not None:
            self.first = self.first or time.monotonic()
            self._post(Wrote(self._choice, piece))
        if generation.finish_reason is None:
            return False
        self._set_generation(None)
        if generation.finish_reason != "cancelled":
            self._post(Ended(self._choice, generation.finish_reason, generation.usage))
            self._choice += 1
        return self._choice == len(self._choices)

    def _begin_choice(self) -> bool:
        self._set_generation(self._session.begin(self._choices[self._choice]))
        self._post(Began(self._choice))
        return self.cancelled_for is None

    def _set_generation(self, generation: Generation | None) -> None:
        # Who cancels shall not meet the session's next generation, which may be that of another request.
        with self._lock:
            self._generation = generation

    def _interrupt(self) -> None:
        if self._generation is not None:
            self._generation.cancel()

    def leave(self, is_sound: bool) -> None:
        self._set_generation(None)
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if is_sound:
                self._model.pool.give_back(session)
                return
        except NibbleError:
            pass  # what it has computed is not known
        self._model.pool.drop(session)


class EmbeddingWork(Work):
    """Texts of one request as vectors, a batch at a time."""

    def __init__(self, model: "ServedEncoder", texts: list[list[int]], post: Callable[[Event], None]):
        super().__init__(post)
        self._model, self._texts = model, texts
        self._batches = model.batches([len(text) for text in texts])

    @property
    def place(self) -> "ServedEncoder":
        return self._model

    def step(self) -> bool:
        rows = self._batches.pop(0)
        vectors: np.ndarray = self._model.encoder.run([self._texts[row] for row in rows])
        self.first = self.first or time.monotonic()
        self._post(Encoded(rows, vectors))
        return not self._batches
