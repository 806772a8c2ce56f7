"""nibble.ray in the actors of Ray Data, and Ray's own processor of HTTP requests against a server."""

import contextlib
import logging
import os
import signal
import sys

import numpy as np
import pytest

import nibble.ray
from support.needs import needs
from support.scripted_model import Script
from support.sum_encoder import TABLE, WIDTH
from support.tiny_model import make_tokenizer

ray = needs("ray")
data = needs("ray.data")
pyarrow = needs("pyarrow")
ROWS, MIDDLE, MISSING = 2000, 1000, 97
LETTERS = "klmnopqrs"
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.fixture(scope="module")
def cluster():
    # Actors do not find this file by its name.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)
    data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """After a letter it says the next ones."""
    script = Script()
    script.says(LETTERS)
    return script.make(tmp_path_factory.mktemp("model") / "letters", chat_template=TEMPLATE)


class Mortal(nibble.ray.Embedder):
    """The first one that has done the row in the middle is killed before anybody knows."""

    def __init__(self, marker: str, **options):
        super().__init__(**options)
        self._marker = marker

    def __call__(self, batch):
        made = super().__call__(batch)
        if MIDDLE in batch["id"]:
            with contextlib.suppress(FileExistsError), open(self._marker, "x") as file:
                file.write(str(os.getpid()))
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        return {**made, "process": np.full(len(made["id"]), os.getpid())}


def text_of(number: int) -> str | None:
    return None if number % MISSING == 0 else f"row {number} of {'x' * (number % 40)}"


def test_all_rows_are_there_once_although_an_actor_is_killed(cluster, encoder, tmp_path):
    marker = tmp_path / "killed"
    rows = data.from_items([{"id": number, "text": text_of(number)} for number in range(ROWS)], override_num_blocks=20)
    made = rows.map_batches(
        Mortal,
        fn_constructor_kwargs={"marker": str(marker), "model": str(encoder), "normalize": False},
        batch_size=100,
        concurrency=2,
    ).take_all()
    made.sort(key=lambda row: row["id"])
    assert [row["id"] for row in made] == list(range(ROWS))
    assert made[MIDDLE]["process"] != int(marker.read_text())
    assert len({row["process"] for row in made}) > 1
    tokenizer = make_tokenizer(len(TABLE))
    for number, row in enumerate(made):
        text = text_of(number)
        wanted = np.zeros(WIDTH) if text is None else TABLE[tokenizer.encode(text).ids].sum(0)
        np.testing.assert_allclose(row["embedding"], wanted, 0, 1e-4)
        assert row["error"] == ("column 'text' must be text, but it is None" if text is None else "")
        assert (row["text"], row["truncated"]) == (text, False)


@pytest.mark.parametrize("batch_format", ["numpy", "pyarrow"])
def test_generated_rows_keep_their_columns_and_can_be_written(cluster, model, tmp_path, batch_format):
    params = [{"max_tokens": 1}, {"max_tokens": 2, "seed": 7}, None, {"temperature": -1.0}]
    rows = [
        {
            "id": number,
            "messages": [{"role": "user", "content": LETTERS[number % 7]}],
            "sampling_params": params[number % 4],
        }
        for number in range(40)
    ]
    given = tmp_path / "given"
    given.mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), given / "rows.parquet")
    made = data.read_parquet(str(given), override_num_blocks=4).map_batches(
        nibble.ray.Generator,
        fn_constructor_kwargs={"model": str(model), "sampling_params": {"max_tokens": 1}},
        batch_format=batch_format,
        batch_size=10,
        compute=data.ActorPoolStrategy(size=2),
    )
    made.write_parquet(str(tmp_path / "made"))
    table = pyarrow.parquet.read_table(tmp_path / "made").sort_by("id")
    got, wanted = table.schema, pyarrow.parquet.read_schema(given / "rows.parquet")
    kept = ["id", "messages"] if batch_format == "numpy" else wanted.names
    assert [got.field(name).type for name in kept] == [wanted.field(name).type for name in kept]
    assert table["messages"].to_pylist() == [row["messages"] for row in rows]
    for number, row in enumerate(table.to_pylist()):
        is_bad, count = number % 4 == 3, 2 if number % 4 == 1 else 1
        after = LETTERS.index(rows[number]["messages"][0]["content"]) + 1
        assert row["id"] == number
        assert row["generated_text"] == ("" if is_bad else LETTERS[after : after + count])
        assert row["error"] == ("temperature is -1, but it must be a number from 0 on" if is_bad else "")
        assert row["finish_reason"] == ("" if is_bad else "length")
        assert (row["prompt_tokens"], row["completion_tokens"]) == ((0, 0) if is_bad else (1, count))


@pytest.mark.parametrize("batch_format", ["numpy", "pyarrow"])
def test_vectors_can_be_written(cluster, encoder, tmp_path, batch_format):
    rows = data.from_items([{"id": number, "text": f"row {number}"} for number in range(30)])
    made = rows.map_batches(
        nibble.ray.Embedder,
        fn_constructor_kwargs={"model": str(encoder), "columns": {"embedding": "vector"}},
        batch_format=batch_format,
        batch_size=10,
        concurrency=1,
    )
    made.write_parquet(str(tmp_path / "made"))
    back = sorted(data.read_parquet(str(tmp_path / "made")).take_all(), key=lambda row: row["id"])
    with nibble.ray.Embedder(encoder) as embed:
        wanted = embed({"text": [f"row {number}" for number in range(30)]})["embedding"]
    np.testing.assert_allclose([row["vector"] for row in back], wanted, 0, 1e-6)


@pytest.mark.parametrize(
    ("batch_format", "options", "sentence"),
    [
        ("pandas", {}, "an Arrow table or a list of rows, but it is pandas.DataFrame: Ray gives the first with"),
        ("numpy", {"columns": {"text": "body"}}, "there is no column 'body' among 'id', 'text'"),
    ],
)
def test_what_is_wrong_with_a_batch_is_told_to_who_runs_it(cluster, encoder, batch_format, options, sentence):
    rows = data.from_items([{"id": 1, "text": "one"}]).map_batches(
        nibble.ray.Embedder,
        fn_constructor_kwargs={"model": str(encoder), **options},
        batch_format=batch_format,
        concurrency=1,
    )
    with pytest.raises(ray.exceptions.RayError) as raised:
        rows.take_all()
    assert sentence in str(raised.value)


def test_rays_processor_of_http_requests_is_answered(cluster, served):
    llm = needs("ray.data.llm")

    def ask(row: dict) -> dict:
        messages = [{"role": "user", "content": f"What is {row['id']}?"}]
        temperature = 9 if row["id"] == 5 else 0
        return {
            "id": row["id"],
            "payload": {"model": "tiny", "messages": messages, "max_tokens": 8, "temperature": temperature},
        }

    def take(row: dict) -> dict:
        answer = row["http_response"]
        if answer.get("error"):
            return {"id": row["id"], "said": "", "tokens": 0, "error": answer["error"]["message"]}
        said = answer["choices"][0]["message"]["content"]
        return {"id": row["id"], "said": said, "tokens": answer["usage"]["completion_tokens"], "error": ""}

    config = llm.HttpRequestProcessorConfig(url=f"{served.url}/v1/chat/completions", batch_size=8, concurrency=1)
    processor = llm.build_processor(config, preprocess=ask, postprocess=take)
    made = sorted(
        processor(data.from_items([{"id": number} for number in range(24)])).take_all(), key=lambda r: r["id"]
    )
    assert [row["id"] for row in made] == list(range(24))
    for row in made:
        if row["id"] == 5:
            assert row["error"] == "temperature is 9, but it must be a number from 0 to 2"
            continue
        body = {**ask({"id": row["id"]})["payload"]}
        wanted = served.post("/v1/chat/completions", body).json
        assert row["said"] == wanted["choices"][0]["message"]["content"] != ""
        assert (row["tokens"], row["error"]) == (wanted["usage"]["completion_tokens"], "")
