"""Embeddings: texts and tokens in, floats and base64 out."""

import base64

import numpy as np
import pytest

import nibble

TEXTS = ["Saturn has rings.", "Water the tomatoes in the evening.", "a"]


@pytest.fixture(scope="module")
def vectors():
    with nibble.Encoder("wordllama") as encoder:
        return encoder.encode(TEXTS)


def embed(served, given, **more):
    answer = served.post("/v1/embeddings", {"model": "words", "input": given, **more})
    assert answer.status == 200, answer.body
    assert [one["index"] for one in answer.json["data"]] == list(range(len(answer.json["data"])))
    return answer.json


def test_vectors_are_those_of_the_library(served, vectors):
    body = embed(served, TEXTS)
    assert np.allclose([one["embedding"] for one in body["data"]], vectors, atol=1e-6)
    assert body["usage"]["prompt_tokens"] == body["usage"]["total_tokens"] > 3
    one = embed(served, TEXTS[0])["data"]
    assert np.allclose(one[0]["embedding"], vectors[0], atol=1e-6)


def test_base64_holds_the_same_floats(served, vectors):
    body = embed(served, TEXTS, encoding_format="base64")
    found = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in body["data"]]
    assert np.allclose(found, vectors, atol=1e-6)


def test_tokens_are_as_good_as_their_text(served, vectors):
    encoder = served.server.serving.models["words"].encoder
    tokens = [encoder.tokens_of(text) for text in TEXTS]
    assert np.allclose([one["embedding"] for one in embed(served, tokens)["data"]], vectors, atol=1e-6)
    assert np.allclose(embed(served, tokens[1])["data"][0]["embedding"], vectors[1], atol=1e-6)


def test_special_tokens_are_put_around_tokens_that_lack_them():
    encoder = object.__new__(nibble.Encoder)
    encoder.__dict__["_frame"] = ([101], [102])
    assert encoder.tokens_of([5, 6]) == [101, 5, 6, 102] == encoder.tokens_of([101, 5, 6, 102])


def test_many_texts_are_batches_between_which_others_have_their_turn(served):
    before = served.server.scheduler.steps
    body = embed(served, [f"text {n}" for n in range(700)])
    assert len(body["data"]) == 700
    assert served.server.scheduler.steps > before + 1
