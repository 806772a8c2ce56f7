"""Further clients, end to end, with a tiny model and with SmolLM2. Their packages lie beside .venv: ./test full
installs them."""

import json
import os
import subprocess
import sys
from typing import Literal

import pydantic
import pytest

from support.needs import needs

pytestmark = pytest.mark.slow
TOOL_TEXT = "Is it raining?"


class Person(pydantic.BaseModel, extra="forbid"):
    """Somebody."""

    name: Literal["Ann", "Bob"]
    grown: bool


def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather in a city."""
    return f"rain in {city}"


class TestLangchain:
    @pytest.fixture(scope="class")
    def module(self):
        return needs("langchain_openai")

    @pytest.fixture(scope="class")
    def chat(self, module, target):
        most = 100 if target.answer else 400  # the tiny model takes longer to end its JSON
        return module.ChatOpenAI(
            model=target.chat,
            base_url=f"{target.url}/v1",
            api_key="none",
            temperature=0,
            max_tokens=most,
            max_retries=0,
        )

    def test_chat_streams_what_it_says(self, chat, target):
        asked = [("system", "be brief"), ("user", target.question)]
        said = chat.invoke(asked)
        assert said.content
        assert target.answer in said.content
        assert said.usage_metadata["output_tokens"] > 0
        pieces = list(chat.stream(asked))
        assert "".join(piece.content for piece in pieces) == said.content
        assert len(pieces) > 5

    @pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
    def test_structured_output(self, chat, method):
        if method == "json_mode":
            # Any object: the model does not know the schema.
            assert (
                chat.with_structured_output(None, method=method, include_raw=True).invoke("hi")["raw"].content[0] == "{"
            )
            return
        assert isinstance(chat.with_structured_output(Person, method=method).invoke("Who is it?"), Person)

    def test_tools_are_called_and_their_answers_come_back(self, chat, target):
        bound = chat.bind_tools([get_weather], **target.use_tool)
        asked = bound.invoke(TOOL_TEXT)
        (call,) = asked.tool_calls
        assert (call["name"], call["args"]["city"] in ("Paris", "Rome")) == ("get_weather", True)
        told = {"role": "tool", "content": get_weather(call["args"]["city"]), "tool_call_id": call["id"]}
        speaks = chat.bind_tools([get_weather], tool_choice="none") if target.use_tool else bound
        assert speaks.invoke([("user", TOOL_TEXT), asked, told]).content
        streamed = None
        for piece in bound.stream(TOOL_TEXT):
            streamed = piece if streamed is None else streamed + piece
        assert streamed.tool_calls[0]["args"] == call["args"]

    def test_embeddings(self, module, target):
        made = module.OpenAIEmbeddings(
            model=target.encoder, base_url=f"{target.url}/v1", api_key="none", check_embedding_ctx_length=False
        )
        vectors = made.embed_documents(["Saturn has rings.", "Water the tomatoes."])
        assert [len(vector) for vector in vectors] == [target.width] * 2
        assert made.embed_query("Saturn has rings.") == pytest.approx(vectors[0], abs=1e-6)


class TestLlm:
    @pytest.fixture(scope="class")
    def run(self, target, tmp_path_factory):
        needs("llm")
        home = tmp_path_factory.mktemp("llm")
        model = f"- model_id: {target.chat}\n  model_name: {target.chat}\n  api_base: {target.url}/v1\n"
        (home / "extra-openai-models.yaml").write_text(f"{model}  supports_schema: true\n  supports_tools: true\n")
        environment = {**os.environ, "LLM_USER_PATH": str(home), "OPENAI_API_KEY": "none"}

        def run(*arguments: str) -> str:
            command = [sys.executable, "-c", "from llm.cli import cli; cli()", "-m", target.chat, *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run

    @pytest.mark.parametrize("stream", [(), ("--no-stream",)], ids=["stream", "whole"])
    def test_a_prompt_is_answered(self, run, target, stream):
        said = run(target.question, "-o", "max_tokens", "20", "-o", "temperature", "0", *stream)
        assert said.strip()
        assert target.answer in said

    def test_a_schema_is_kept(self, run):
        schema = json.dumps(Person.model_json_schema())
        assert set(json.loads(run("hi", "--schema", schema))) == {"name", "grown"}
