"""The client `openai`, end to end: with a tiny model, and with SmolLM2 in ./test full."""

import asyncio
import json
from typing import Literal

import numpy as np
import openai
import pydantic
import pytest


@pytest.fixture(scope="module")
def client(target):
    with openai.OpenAI(base_url=f"{target.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def user(target) -> list[dict]:
    return [{"role": "user", "content": target.question}]


@pytest.fixture(scope="module")
def plain(target, user) -> dict:
    return {"model": target.chat, "messages": user, "temperature": 0, "max_completion_tokens": 12}


def test_chat_whole_and_streamed_and_from_many_tasks(target, client, plain):
    whole = client.chat.completions.create(**plain)
    text, ended = whole.choices[0].message.content, (whole.choices[0].finish_reason, whole.usage.completion_tokens)
    assert target.answer in text
    assert (ended == ("length", 12)) if not target.answer else (ended[0] == "stop")
    stream = client.chat.completions.create(**plain, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == text
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens - 1
    assert chunks[0].id

    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{target.url}/v1", api_key="none", max_retries=0) as other:

            async def one(is_stream: bool) -> str:
                if not is_stream:
                    return (await other.chat.completions.create(**plain)).choices[0].message.content
                stream = await other.chat.completions.create(**plain, stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            return await asyncio.gather(*(one(bool(n % 2)) for n in range(8)))

    assert asyncio.run(ask()) == [text] * 8


def test_models_completions_and_embeddings(target, client):
    assert [model.id for model in client.models.list()] == [target.chat, target.encoder]
    assert client.models.retrieve(target.chat).id == target.chat
    assert client.completions.create(model=target.chat, prompt="x", max_tokens=3, temperature=0).choices[0].text
    floats = client.embeddings.create(model=target.encoder, input=["a", "b"], encoding_format="float")
    packed = client.embeddings.create(model=target.encoder, input=["a", "b"])  # base64, which the client unpacks
    assert [len(one.embedding) for one in packed.data] == [target.width] * 2
    assert np.allclose([one.embedding for one in floats.data], [one.embedding for one in packed.data])


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (openai.BadRequestError, {"temperature": 9}),
        (openai.NotFoundError, {"model": "gpt"}),
        (openai.BadRequestError, {"messages": [{"role": "user", "content": "long " * 9000}]}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_those_of_the_client(client, plain, kind, asked, stream):
    with pytest.raises(kind) as error:
        client.chat.completions.create(**{**plain, **asked}, stream=stream)
    assert error.value.param in (*asked,)
    assert error.value.request_id.startswith("req_")


class Person(pydantic.BaseModel):
    name: Literal["Ann", "Bob"]
    grown: bool


def test_structured_output_is_parsed(target, client, user):
    asked = {"model": target.chat, "messages": user, "response_format": Person}
    done = client.chat.completions.parse(**asked, temperature=1)
    assert isinstance(done.choices[0].message.parsed, Person)
    with client.chat.completions.stream(**asked, seed=3) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Person)


class Weather(pydantic.BaseModel):
    """The weather in a city."""

    city: Literal["Paris", "Rome"]


def test_tools_are_called_and_their_arguments_parsed(target, client, user):
    tool = openai.pydantic_function_tool(Weather)
    asked = {"model": target.chat, "messages": user, "tools": [tool], "temperature": 0, **target.use_tool}
    done = client.chat.completions.parse(**asked)
    (call,) = done.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Weather)
    with client.chat.completions.stream(**asked) as stream:
        (again,) = stream.get_final_completion().choices[0].message.tool_calls
    assert json.loads(again.function.arguments) == json.loads(call.function.arguments)
