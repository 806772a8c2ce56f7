"""The server's paths."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from importlib import resources
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from .chat_answer import ChatAnswer
from .chat_request import chat_request
from .completion_answer import CompletionAnswer
from .completion_request import completion_request
from .context import Context
from .embedding_answer import embedding_answer
from .embedding_request import EmbeddingRequest, embedding_request
from .errors import ApiError, wrong
from .events import Done, Encoded, Event, Failed
from .exchange import Exchange, Job, Make
from .fields import shown
from .guard import Guard, error_response
from .json_text import as_json, as_long_json
from .served import Served
from .stream import EventStream, WholeAnswer
from .work import EmbeddingWork, TextWork

Post = Callable[[Event], None]
_PAUSE = 0.05
_PAGE_RULES = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:"


def make_app(context: Context, *, key: str | None, hosts: Iterable[str] | None, origins: Sequence[str]) -> ASGIApp:
    routes = [
        Route("/", _file("page.html", "text/html"), methods=["GET"]),
        Route("/page.js", _file("page.js", "text/javascript"), methods=["GET"]),
        Route("/health", _health, methods=["GET"]),
        Route("/metrics", _metrics, methods=["GET"]),
        Route("/v1/models", _models, methods=["GET"]),
        Route("/v1/models/{id:path}", _model, methods=["GET"]),
        Route("/v1/chat/completions", _text(_make_chat), methods=["POST"]),
        Route("/v1/completions", _text(_make_completion), methods=["POST"]),
        Route("/v1/embeddings", _embeddings, methods=["POST"]),
    ]
    handlers = {ApiError: _refuse, HTTPException: _refuse_path, ClientDisconnect: _forget, Exception: _fail}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=_watch_loop)
    app.router.redirect_slashes = False
    app.state.context = context
    guarded = Guard(app, context, key=key, hosts=hosts)
    if not origins:
        return guarded
    methods, headers = ["GET", "POST"], ["Authorization", "Content-Type"]
    return CORSMiddleware(guarded, allow_origins=list(origins), allow_methods=methods, allow_headers=headers)


def _make_chat(context: Context, body: Any, post: Post) -> tuple[Served, Callable[[], Job]]:
    request = chat_request(body, context.limits.choices)
    model = context.serving.find(request.model, "text")

    def make() -> Job:
        work = TextWork(model, model.prepare_chat(request), post)
        keeps = context.logs_prompts or not request.is_stream
        answer = ChatAnswer(request, lambda: model.tool_text(request), model.model.tokenizer.bytes_of, keeps)
        return Job(work, model.id, answer, request.is_stream, request.wants_usage)

    return model, make


def _make_completion(context: Context, body: Any, post: Post) -> tuple[Served, Callable[[], Job]]:
    request = completion_request(body, context.limits.choices)
    model = context.serving.find(request.model, "text")

    def make() -> Job:
        decode = model.model.tokenizer.decode
        work = TextWork(model, model.prepare_completion(request), post)
        prompts = [one if isinstance(one, str) else decode(one) for one in request.prompts]
        answer = CompletionAnswer(request, prompts, context.logs_prompts or not request.is_stream)
        return Job(work, model.id, answer, request.is_stream, request.wants_usage)

    return model, make


def _text(make: Make) -> Callable:
    async def answer(request: Request) -> Response:
        exchange = Exchange(request.app.state.context, request)
        is_handed_over = False
        try:
            await exchange.begin(make)
            # What fails before the answer begins has its own status.
            events = await exchange.events()
            if exchange.job.is_stream and not isinstance(events[0], Failed):
                is_handed_over = True
                return EventStream(exchange, events)
            while True:
                for event in events:
                    if isinstance(event, Failed):
                        raise event.error
                    if isinstance(event, Done):
                        body = await as_long_json(exchange.job.answer.body())
                        return WholeAnswer(body, request.app.state.context.unread)
                    exchange.job.answer.take(event)
                events = await exchange.events()
        finally:
            if not is_handed_over:
                exchange.close()

    return answer


async def _embeddings(request: Request) -> Response:
    exchange = Exchange(request.app.state.context, request)
    asked: dict[str, Any] = {}

    def make(context: Context, body: Any, post: Post) -> tuple[Served, Callable[[], Job]]:
        wanted = embedding_request(body)
        model = context.serving.find(wanted.model, "encoder")
        width = model.encoder.width
        if wanted.dimensions not in (None, width):
            raise wrong("dimensions", f"dimensions is {wanted.dimensions}, but vectors of '{model.id}' have {width}")

        def make_job() -> Job:
            texts = model.tokens_of(wanted.inputs)
            asked.update(wanted=wanted, tokens=sum(map(len, texts)), vectors=np.zeros((len(texts), width), np.float32))
            return Job(EmbeddingWork(model, texts, post), model.id)

        return model, make_job

    try:
        await exchange.begin(make)
        while True:
            for event in await exchange.events():
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, Done):
                    return await _vectors(request, exchange, **asked)
                if isinstance(event, Encoded):
                    asked["vectors"][event.rows] = event.vectors
    finally:
        exchange.close()


async def _vectors(
    request: Request, exchange: Exchange, wanted: EmbeddingRequest, tokens: int, vectors: np.ndarray
) -> Response:
    context = request.app.state.context
    context.metrics.tokens[wanted.model, "prompt"] += tokens
    request.scope["nibble"]["prompt_tokens"] = tokens
    body = await exchange.in_thread(embedding_answer, wanted, tokens, vectors)
    return WholeAnswer(body, context.unread)


def _described(model: Served) -> dict:
    facts = {"id": model.id, "object": "model", "created": model.created, "owned_by": "nibble"}
    return facts | ({"context_length": model.context} if model.kind == "text" else {})


async def _models(request: Request) -> Response:
    models = request.app.state.context.serving.models.values()
    return Response(
        as_json({"object": "list", "data": [_described(model) for model in models]}), media_type="application/json"
    )


async def _model(request: Request) -> Response:
    id, models = request.path_params["id"], request.app.state.context.serving.models
    if id not in models:
        raise ApiError(404, f"there is no model {shown(id)} here", param="model", code="model_not_found")
    return Response(as_json(_described(models[id])), media_type="application/json")


async def _health(request: Request) -> Response:
    context: Context = request.app.state.context
    lost, failure = context.scheduler.lost, context.scheduler.failure
    state = {"status": "ok"}
    if failure is not None:
        state = {"status": "failed", "error": f"{type(failure).__name__}: {failure}"}
    elif lost is not None:
        state = {"status": "device lost", "error": str(lost)}
    return Response(as_json(state), 200 if state == {"status": "ok"} else 503, media_type="application/json")


async def _metrics(request: Request) -> Response:
    context: Context = request.app.state.context
    scheduler, models = context.scheduler, context.serving.models.values()
    pools = [(f'{{model="{model.id}"}}', model.pool) for model in models if model.kind == "text"]
    others = [
        ("waiting_requests", "Requests that wait for a session.", "", scheduler.waiting),
        ("running_requests", "Requests that run.", "", scheduler.running),
        ("steps_total", "Steps that were made: chunks of prompts, tokens, batches.", "", scheduler.steps),
        ("steps_after_cancel", "The most steps that a request made after it was cancelled.", "",
         scheduler.steps_after_cancel),
        ("device_reopened_total", "How often the device was lost and opened again.", "", scheduler.reopened),
        ("event_loop_longest_pause_seconds", "The longest time in which no request was heard.", "",
         context.metrics.longest_pause),
        *(("sessions_in_use", "Sessions that a request has.", labels, pool.in_use) for labels, pool in pools),
        *(("sessions_idle", "Sessions that keep what they computed.", labels, pool.idle) for labels, pool in pools),
    ]  # fmt: skip
    return Response(context.metrics.text(others), media_type="text/plain; version=0.0.4")


def _file(name: str, media_type: str) -> Callable:
    content = (resources.files(__package__) / name).read_bytes()
    headers = {"Content-Security-Policy": _PAGE_RULES, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}

    async def answer(_: Request) -> Response:
        return Response(content, headers=headers, media_type=media_type)

    return answer


async def _refuse(request: Request, error: ApiError) -> Response:
    request.scope["nibble"]["error"] = error.message
    return error_response(error)


async def _forget(_: Request, _error: ClientDisconnect) -> Response:
    return Response(status_code=499)


async def _fail(_: Request, _error: Exception) -> Response:
    """The guard, to whom it comes next, tells the log what it was."""
    return error_response(ApiError(500, "the server failed", code="internal"))


async def _refuse_path(request: Request, error: HTTPException) -> Response:
    method, path = request.method[:20], request.scope["path"][:100]
    message = f"there is no {path} here" if error.status_code == 404 else f"{path} does not take {method}"
    return await _refuse(request, ApiError(error.status_code, message, code="unknown_path"))


@contextlib.asynccontextmanager
async def _watch_loop(app: Starlette) -> AsyncIterator[None]:
    """Measures the event loop's longest pause: how much later than it wanted a task goes on."""
    loop, metrics = asyncio.get_running_loop(), app.state.context.metrics

    async def watch() -> None:
        while True:
            before = loop.time()
            await asyncio.sleep(_PAUSE)
            metrics.longest_pause = max(metrics.longest_pause, loop.time() - before - _PAUSE)

    task = asyncio.create_task(watch())
    yield
    task.cancel()
