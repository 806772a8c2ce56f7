"""One request and its answer: from the body to the last byte. Whoever goes away, or takes too long, is cancelled."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from .._native import NibbleError
from .answer import Answer
from .body import parse_json
from .context import Context
from .errors import ApiError, from_nibble, is_panic
from .events import Done, Event, Failed, Mailbox
from .served import Served
from .work import Work


@dataclass(frozen=True)
class Job:
    """A request that was understood: what computes it, and what becomes of the events."""

    work: Work
    model: str
    answer: Answer | None = None
    is_stream: bool = False
    wants_usage: bool = False


# Of the body's JSON: the model that is asked, and what makes the job, which may take long.
Make = Callable[[Context, Any, Callable[[Event], None]], tuple[Served, Callable[[], Job]]]


class Exchange:
    def __init__(self, context: Context, request: Request):
        self._context, self._request = context, request
        self._loop = asyncio.get_running_loop()
        self._mailbox = Mailbox(self._loop, context.unread, self._cancel)
        self._watch: asyncio.Task | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._has_ended = False
        self.deadline = self._loop.time() + context.limits.seconds
        self.job: Job | None = None

    async def begin(self, make: Make) -> None:
        """Reads, checks and submits. The model has a place for it, or it is refused before it costs much."""
        context = self._context
        async with context.bodies.read(self._request) as body:
            model, make_job = await self.in_thread(self._parse, make, body)
            ticket = context.scheduler.admit(model)
            try:
                self.job = await self.in_thread(make_job)
                context.scheduler.submit(self.job.work, ticket)
            except BaseException:
                ticket.give_back()
                raise
        self._watch = asyncio.create_task(self._await_disconnect())
        seconds = context.limits.seconds
        late = ApiError(504, f"the request took longer than {seconds:g} seconds", code="timeout")
        self._alarm = self._loop.call_at(self.deadline, self._cancel, late)

    def _parse(self, make: Make, body: bytes) -> tuple[Served, Callable[[], Job]]:
        parsed = parse_json(body)
        if self._context.logs_prompts:
            self._request.scope["nibble"]["request"] = parsed
        return make(self._context, parsed, self._mailbox.post)

    async def in_thread(self, function: Callable, *arguments: Any) -> Any:
        return await self._loop.run_in_executor(self._context.threads, _told, function, *arguments)

    async def events(self) -> list[Event]:
        """Those that came. The last one of all is Done or Failed."""
        events = await self._mailbox.take()
        self._has_ended = isinstance(events[-1], Done | Failed)
        if isinstance(events[-1], Failed):
            self._request.scope["nibble"]["error"] = events[-1].error.message
        return events

    async def _await_disconnect(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._cancel(ApiError(499, "the client has gone", code="client_gone"))

    def _cancel(self, why: ApiError) -> None:
        self._context.scheduler.cancel(self.job.work, why)

    def close(self) -> None:
        """Whatever has not ended is cancelled; and the log is told."""
        if self._watch:
            self._watch.cancel()
        if self._alarm:
            self._alarm.cancel()
        self._mailbox.close()
        if self.job is None:
            return
        if not self._has_ended:
            self._cancel(ApiError(499, "the answer was given up", code="client_gone"))
        self._account()

    def _account(self) -> None:
        facts, work, answer = self._request.scope["nibble"], self.job.work, self.job.answer
        metrics, model = self._context.metrics, self.job.model
        facts |= {"model": model, "stream": self.job.is_stream or None, "steps": work.steps}
        if work.began:
            metrics.waits.add(work.began - work.asked)
            facts["queue_ms"] = round((work.began - work.asked) * 1e3)
        if work.first:
            metrics.first_tokens.add(work.first - work.asked)
            facts["first_ms"] = round((work.first - work.asked) * 1e3)
        if work.cancelled_for:
            facts["cancelled"] = work.cancelled_for.code
        if answer is None:
            return
        counts = {"prompt": answer.prompt_tokens, "cached": answer.cached_tokens, "generated": answer.completion_tokens}
        for kind, count in counts.items():
            metrics.tokens[model, kind] += count
            facts[f"{kind}_tokens"] = count
        facts["finish"] = ",".join(answer.reasons) or None
        if self._context.logs_prompts:
            facts["answer"] = answer.text


def _told(function: Callable, *arguments: Any) -> Any:
    """What goes wrong with a request, as its client is told."""
    try:
        return function(*arguments)
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    except NibbleError as error:
        raise from_nibble(error) from None
    except BaseException as error:
        if is_panic(error):
            raise ApiError(400, f"a library failed on the request: {str(error)[:200]}") from None
        raise
