"""Further clients, end to end. Their packages lie beside .venv: ./test full installs them."""

import json
import os
import subprocess
import sys
from typing import Literal

import pydantic
import pytest

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
        return pytest.importorskip("langchain_openai")

    @pytest.fixture(scope="class")
    def chat(self, module, served):
        return module.ChatOpenAI(
            model="tiny", base_url=f"{served.url}/v1", api_key="none", temperature=0, max_tokens=400, max_retries=0
        )

    def test_chat_streams_what_it_says(self, chat):
        said = chat.invoke([("system", "be brief"), ("user", "hi")])
        assert said.content
        assert said.usage_metadata["output_tokens"] > 0
        pieces = list(chat.stream([("system", "be brief"), ("user", "hi")]))
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

    def test_tools_are_called_and_their_answers_come_back(self, chat):
        bound = chat.bind_tools([get_weather])
        asked = bound.invoke(TOOL_TEXT)
        (call,) = asked.tool_calls
        assert (call["name"], call["args"]["city"] in ("Paris", "Rome")) == ("get_weather", True)
        told = {"role": "tool", "content": get_weather(**call["args"]), "tool_call_id": call["id"]}
        assert bound.invoke([("user", TOOL_TEXT), asked, told]).content
        streamed = None
        for piece in bound.stream(TOOL_TEXT):
            streamed = piece if streamed is None else streamed + piece
        assert streamed.tool_calls[0]["args"] == call["args"]

    def test_embeddings(self, module, served):
        made = module.OpenAIEmbeddings(
            model="words", base_url=f"{served.url}/v1", api_key="none", check_embedding_ctx_length=False
        )
        vectors = made.embed_documents(["Saturn has rings.", "Water the tomatoes."])
        assert [len(vector) for vector in vectors] == [256, 256]
        assert made.embed_query("Saturn has rings.") == pytest.approx(vectors[0], abs=1e-6)


class TestLlm:
    @pytest.fixture(scope="class")
    def run(self, served, tmp_path_factory):
        pytest.importorskip("llm")
        home = tmp_path_factory.mktemp("llm")
        model = f"- model_id: tiny\n  model_name: tiny\n  api_base: {served.url}/v1\n  supports_schema: true\n"
        (home / "extra-openai-models.yaml").write_text(f"{model}  supports_tools: true\n")
        environment = {**os.environ, "LLM_USER_PATH": str(home), "OPENAI_API_KEY": "none"}

        def run(*arguments: str) -> str:
            command = [sys.executable, "-c", "from llm.cli import cli; cli()", *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            return done.stdout

        return run

    @pytest.mark.parametrize("stream", [(), ("--no-stream",)], ids=["stream", "whole"])
    def test_a_prompt_is_answered(self, run, stream):
        assert run("-m", "tiny", "hi", "-o", "max_tokens", "20", "-o", "temperature", "0", *stream).strip()

    def test_a_schema_is_kept(self, run):
        schema = json.dumps(Person.model_json_schema())
        assert set(json.loads(run("-m", "tiny", "hi", "--schema", schema))) == {"name", "grown"}
