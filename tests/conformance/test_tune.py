"""Tuning: the command, nibble.tune, and loads that measure or find what was measured."""

import json
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nibble
from conformance.command import COMMAND, fail, given, hear_ctrl_c, succeed
from conformance.command import nibble as run
from conformance.command import program as path_of

PROGRAM = "q4_dynamic_length"
LONG = 600_000  # milliseconds: nothing here takes that long


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The user's cache folder, of one test."""
    monkeypatch.setenv("NIBBLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NIBBLE_TUNE", raising=False)
    return tmp_path / "cache" / "tunings"


@pytest.fixture
def program(tmp_path):
    """A program in a folder of its own."""
    return shutil.copy(path_of(PROGRAM), tmp_path / "model.pte")


def check_results(**options) -> None:
    """A load with these options gives what torch does."""
    folder = path_of(PROGRAM).parent
    with nibble.load(options.pop("path", folder / "model.pte"), **options) as model:
        _, wanted = given(PROGRAM)
        np.testing.assert_allclose(model(np.load(folder / "in0_0.npy")), wanted[0], rtol=1e-5, atol=1e-6)


def other_device(tuning: dict) -> dict:
    return {"tunings": [{**tuning["tunings"][0], "device": "another device"}]}


def test_tuning_is_kept_and_told(program, cache):
    told = succeed("tune", program)
    assert re.match(rf"{re.escape(str(program))} on .*: (\d+) of \1 cases in \d+ ms\n", told)
    assert re.search(r"\n  choice +rows +width +before +best +time\n", told)
    assert "embedding_q4gsw" in told
    (kept,) = cache.iterdir()
    (tuning,) = json.loads(kept.read_text())["tunings"]
    info = nibble.Device().info
    assert [tuning[key] for key in ("device", "driver", "engine")] == [info.name, info.driver, info.engine]
    assert tuning["nibble"] == nibble.__version__
    for row in tuning["choices"]:
        assert {"choice", "variant", "rows", "width", "traits"} <= row.keys()
        if "times" in row:
            assert {row["variant"], row["before"]} <= row["times"].keys()
    check_results(path=program)


def test_json_is_a_document_that_loads_and_inspect_take(program, tmp_path):
    text = succeed("tune", program, "--json")
    document = json.loads(text)
    check_results(tuning=document)
    file = tmp_path / "tuning.json"
    file.write_text(text)
    info = nibble.Device().info
    shown = succeed(
        "inspect", program, "--variants", "--tuning", file, "--engine", info.engine, "--device", info.number
    )
    assert "embedding_q4gsw" in shown
    # For WebGPU's default limits it is one of another device.
    done = run("inspect", program, "--variants", "--tuning", file)
    assert done.returncode == 0
    assert re.fullmatch(r"nibble: the tuning is ignored: it is for .*, but this is default limits .*\n", done.stderr)


def test_a_file_beside_the_program_serves_several_devices(program, tmp_path, cache):
    file = tmp_path / "model.tuning.json"
    nibble.tune(program, output=file, tune_ms=LONG)
    assert not cache.exists()
    document = json.loads(file.read_text())
    file.write_text(json.dumps(other_device(document)))
    with pytest.warns(UserWarning, match="model.tuning.json: the tuning is ignored: it is for another device"):
        check_results(path=program)
    succeed("tune", program, "--output", file)
    assert [one["device"] for one in json.loads(file.read_text())["tunings"]] == [
        "another device",
        nibble.Device().info.name,
    ]
    check_results(path=program)


def test_a_load_measures_if_nothing_is_kept(program, cache, monkeypatch):
    check_results(path=program)
    assert not cache.exists()
    check_results(path=program, tune=True)
    (kept,) = cache.iterdir()
    before = kept.read_text()
    monkeypatch.setenv("NIBBLE_TUNE", "1")
    check_results(path=program)
    assert kept.read_text() == before
    kept.write_text("no JSON")
    with pytest.warns(UserWarning, match="the tuning is not a JSON object"):
        check_results(path=program, tune_ms=LONG)


def test_the_variable_is_0_or_1(program, monkeypatch):
    monkeypatch.setenv("NIBBLE_TUNE", "2")
    with pytest.raises(nibble.NibbleError, match=r"^\$NIBBLE_TUNE is '2', but it must be 0 or 1$"):
        nibble.load(program)


def test_progress_counts_cases(program):
    seen = []
    tuning = nibble.tune(program, on_progress=lambda done, total: seen.append((done, total)), tune_ms=LONG)
    cases = tuning["tunings"][0]["cases"]
    assert seen == [(i + 1, cases) for i in range(cases)]


@pytest.mark.parametrize("thread", ["main", "other"])
def test_what_progress_raises_ends_it_and_what_was_measured_is_kept(program, cache, thread):
    def stop(done: int, _total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    def tune() -> None:
        with pytest.raises(KeyboardInterrupt):
            nibble.tune(program, on_progress=stop, tune_ms=LONG)

    if thread == "main":
        tune()
    else:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(tune).result()
    (kept,) = cache.iterdir()
    assert json.loads(kept.read_text())["tunings"][0]["measured"] == 2


def test_a_second_tuning_that_is_stopped_loses_nothing(program, cache):
    nibble.tune(program, tune_ms=LONG)
    (kept,) = cache.iterdir()
    points = measured(kept)

    def stop(done: int, _total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nibble.tune(program, on_progress=stop, tune_ms=LONG)
    assert measured(kept) == points


def measured(file) -> set:
    """The points that have times."""
    (tuning,) = json.loads(file.read_text())["tunings"]
    return {(row["choice"], *row["rows"], *row["width"], row["traits"]) for row in tuning["choices"] if "times" in row}


def test_a_load_tells_how_far_its_tuning_is_and_can_be_stopped(program, cache):
    seen = []

    def stop(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nibble.load(program, tune=True, tune_ms=LONG, on_tuning=stop)
    assert seen == [(1, seen[0][1]), (2, seen[0][1])]
    (kept,) = cache.iterdir()
    assert measured(kept)
    assert json.loads(kept.read_text())["tunings"][0]["ended"] == "stopped"
    # What is missing is measured by the next load that wants it.
    check_results(path=program, tune=True, tune_ms=LONG)
    assert json.loads(kept.read_text())["tunings"][0]["ended"] == "complete"


def test_files_of_several_machines_are_merged(program, tmp_path):
    here, there, both = tmp_path / "here.json", tmp_path / "there.json", tmp_path / "model.tuning.json"
    nibble.tune(program, output=here, tune_ms=LONG)
    there.write_text(json.dumps(other_device(json.loads(here.read_text()))))
    succeed("tune", "--merge", here, there, "--output", both)
    merged = json.loads(both.read_text())
    names = [one["device"] for one in merged["tunings"]]
    assert names == [nibble.Device().info.name, "another device"]
    assert merged["tunings"][0] == json.loads(here.read_text())["tunings"][0]
    check_results(path=program)
    succeed("tune", "--merge", here, "--output", both)
    assert json.loads(both.read_text()) == merged
    there.write_text("no JSON")
    assert "there.json: the tuning is not a JSON object" in fail("tune", "--merge", here, there, "--output", both)
    assert json.loads(both.read_text()) == merged
    fail("tune", "--merge", here, code=2)
    fail("tune", program, "--merge", here, "--output", both, code=2)


def test_a_closed_device_tunes_nothing(program):
    device = nibble.Device()
    device.close()
    with pytest.raises(nibble.NibbleError, match="closed"):
        nibble.tune(program, device)


def test_ctrl_c_ends_the_command_with_130(program):
    process = subprocess.Popen(
        [COMMAND, "tune", *[str(program)] * 1000],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_ctrl_c,
    )
    assert process.stdout.read(1)  # one is done: it is in the middle of others
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert re.search(rb"^nibble: tuning was stopped when \d+ of \d+ cases were measured; they are in '", told)


def test_wrong_usage_is_told(program, tmp_path):
    assert "cannot be opened" in fail("tune", tmp_path / "none.pte")
    assert "--output takes the tuning of one model, but 2 are given" in fail(
        "tune", program, program, "--output", tmp_path / "t.json"
    )
    fail("tune", code=2)
    with pytest.raises(nibble.NibbleError, match="tune_ms must be a whole number from 0 on, not -1"):
        nibble.tune(program, tune_ms=-1)
    with pytest.raises(TypeError):
        nibble.tune(program, tunes_ms=1)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(nibble.NibbleError, match=r"notes\.txt: the tuning is not a JSON object"):
        nibble.tune(program, output=tmp_path / "notes.txt")
