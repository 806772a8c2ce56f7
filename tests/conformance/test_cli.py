"""The command `nibble`: results, exit codes, and what it prints where."""

import json
import os
import pty
import re
import select
import subprocess

import numpy as np
import pytest

from conformance.command import COMMAND, NO_GPU, fail, given, nibble, program, pytestmark, save, succeed  # noqa: F401

# What needs no adapter.


def test_version_and_help_need_no_gpu():
    assert re.fullmatch(r"nibble \d+\.\d+\.\d+\n", succeed("--version", env=NO_GPU))
    assert "devices" in succeed("--help", env=NO_GPU)
    for command in ("devices", "inspect", "run", "bench", "ops"):
        assert "--help" in succeed(command, "--help", env=NO_GPU)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["--frobnicate"],
        ["inspect"],
        ["run"],
        ["run", "a.pte", "b.pte"],
        ["run", "a.pte", "--input"],
        ["run", "a.pte", "--repeat", "0"],
        ["run", "a.pte", "--int", "three"],
        ["inspect", "a.pte", "--input-shape", "0:1,2"],
        ["inspect", "a.pte", "--device", "0", "--device-profile", "x.json"],
        ["bench", "a.pte", "--calls", "-1"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2(arguments):
    assert "--help" in fail(*arguments, code=2, env=NO_GPU)


def test_an_unknown_command_is_named():
    assert "'frobnicate'" in fail("frobnicate", code=2)


def test_a_result_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "ops"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "cannot write the result" in done.stderr


def closed(number: int, *arguments) -> tuple[int, str]:
    """The exit code of a command that has not stdout (1) or stderr (2), and what it writes on the other."""
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, **NO_GPU},
        preexec_fn=lambda: os.close(number),
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["ops", "check"])
def test_a_result_that_nobody_can_read_is_an_error(command):
    assert closed(1, command) == (1, "nibble: cannot write the result: Bad file descriptor\n")


@pytest.mark.parametrize("arguments", [["inspect", "/nonexistent"], ["check", "--output", "/nonexistent/x.json"]])
def test_complaints_that_nobody_can_read_are_no_result(arguments):
    assert closed(2, *arguments) == (1, "")


def test_ops_lists_what_a_program_may_have():
    listed = {line.split()[0] for line in succeed("ops", env=NO_GPU).splitlines()[1:]}
    rows = {row["name"]: row for row in json.loads(succeed("ops", "--json", env=NO_GPU))}
    assert listed == {name for name in rows if not name.startswith("nibble.")}
    row = rows["et_vk.embedding_q4gsw.default"]
    assert row["family"] == "embedding"
    roles = {argument["name"]: argument["role"] for argument in row["arguments"]}
    assert (roles["weight"], roles["indices"], roles["is_linear_weight"]) == ("table", "indices", "bool")
    assert [argument["name"] for argument in row["arguments"] if argument["output"]] == ["out"]
    optional = {argument["name"] for argument in rows["aten.linear.default"]["arguments"] if argument["optional"]}
    assert optional == {"bias"}


@pytest.mark.parametrize("command", ["inspect", "run", "bench"])
def test_missing_file_is_named(command):
    assert "no-such-model.pte" in fail(command, "no-such-model.pte", env=NO_GPU if command == "inspect" else None)


@pytest.mark.parametrize("command", ["inspect", "run", "bench"])
def test_broken_file_is_a_sentence(command, tmp_path):
    whole = program("q4_mean").read_bytes()
    broken = tmp_path / "broken.pte"
    for content in (b"", b"no program at all", whole[: len(whole) // 2], bytes(4096)):
        broken.write_bytes(content)
        fail(command, broken, env=NO_GPU if command == "inspect" else None)


# What needs one.


def test_devices_are_listed():
    profiles = json.loads(succeed("devices", "--json"))
    assert profiles
    assert all(profile["max_buffer_size"] > 0 for profile in profiles)
    table = succeed("devices")
    for index, profile in enumerate(profiles):
        assert re.search(rf"^ *{index} +{profile['engine']} +{re.escape(profile['name'])}", table, re.MULTILINE)


def test_a_captured_profile_gives_the_same_plan(tmp_path):
    (tmp_path / "device.json").write_text(json.dumps(json.loads(succeed("devices", "--json"))[0]))
    path = program("q4_mean")
    captured = succeed("inspect", path, "--plan", "--device-profile", tmp_path / "device.json", env=NO_GPU)
    assert captured == succeed("inspect", path, "--plan", "--device", "0")


@pytest.mark.parametrize("command", ["run", "bench", "inspect"])
def test_unknown_device_is_named(command):
    assert "frobnicator" in fail(command, program("q4_mean"), "--device", "frobnicator")


@pytest.mark.parametrize("name", ["q4_mean", "q4_dynamic_length", "add", "mul_int", "from_half", "output_is_input"])
def test_run_gives_the_golden_result(name, tmp_path):
    inputs, goldens = given(name)
    files = [tmp_path / f"out{i}.npy" for i in range(len(goldens))]
    outputs = [part for file in files for part in ("--output", file)]
    assert succeed("run", program(name), *inputs, *outputs) == ""
    for file, golden in zip(files, goldens, strict=True):
        result = np.load(file)
        assert result.dtype == golden.dtype
        np.testing.assert_allclose(result, golden, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_run_reads_all_versions_of_npy(version, tmp_path):
    inputs, (golden,) = given("q4_mean")
    ids = np.load(inputs[1])
    with open(tmp_path / "ids.npy", "wb") as file:
        np.lib.format.write_array(file, ids, version=version)
    succeed("run", program("q4_mean"), "--input", tmp_path / "ids.npy", "--output", tmp_path / "out.npy")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), golden, rtol=1e-5, atol=1e-5)


def test_run_prints_outputs_without_a_file():
    inputs, (golden,) = given("q4_mean")
    text = succeed("run", program("q4_mean"), *inputs)
    assert text.startswith(f"output 0: float32 {list(golden.shape)}\n  ")
    facts = json.loads(succeed("run", program("q4_mean"), *inputs, "--json", "--repeat", "3"))
    assert len(facts["call_ms"]) == 3
    (output,) = facts["outputs"]
    assert output["shape"] == list(golden.shape)
    np.testing.assert_allclose(output["first_values"], golden.ravel()[:8], rtol=1e-4, atol=1e-4)


def test_run_names_wrong_inputs(tmp_path):
    path = program("q4_mean")
    inputs, _ = given("q4_mean")
    assert "1 --input value" in fail("run", path)
    assert "1 --input value" in fail("run", path, *inputs, *inputs)
    assert "0 --int values" in fail("run", path, *inputs, "--int", "3")
    assert "1 outputs" in fail("run", path, *inputs, "--output", tmp_path / "a", "--output", tmp_path / "b")
    assert "input 0" in fail("run", path, "--input", save(tmp_path / "f.npy", np.zeros((1, 2), np.float32)))
    assert "input 0" in fail("run", path, "--input", save(tmp_path / "r.npy", np.zeros((1, 1, 2), np.int64)))
    assert "input 0" in fail("run", path, "--input", save(tmp_path / "s.npy", np.zeros((1, 100000), np.int64)))
    assert "[0, 1] is 123456789" in fail("run", path, "--input", save(tmp_path / "i.npy", np.array([[0, 123456789]])))
    big_endian = save(tmp_path / "e.npy", np.zeros((1, 2), ">i8"))
    assert "'>i8'" in fail("run", path, "--input", big_endian)
    assert "missing.npy" in fail("run", path, "--input", tmp_path / "missing.npy")
    (tmp_path / "text.npy").write_text("no array")
    assert "text.npy" in fail("run", path, "--input", tmp_path / "text.npy")
    assert "no/such/folder" in fail("run", path, *inputs, "--output", "no/such/folder/out.npy")


def test_run_profiles_every_operator():
    inputs, _ = given("q4_mean")
    if not json.loads(succeed("devices", "--json"))[0]["timestamp_query"]:
        pytest.skip("the adapter has no timestamps")
    table = succeed("run", program("q4_mean"), *inputs, "--output", os.devnull, "--profile", "--repeat", "2")
    assert table.startswith("operator ")
    facts = json.loads(succeed("run", program("q4_mean"), *inputs, "--profile", "--json"))
    assert {time["op"] for time in facts["gpu_times"]} == {"et_vk.embedding_q4gsw.default", "aten.mean.dim"}
    assert all(time["op"] in table and time["microseconds"] >= 0 for time in facts["gpu_times"])


def test_bench_times_calls():
    facts = json.loads(succeed("bench", program("q4_mean"), "--calls", "5", "--json"))
    assert facts["calls"] == 5
    assert 0 < facts["p10_us"] <= facts["median_us"] <= facts["p90_us"]
    text = succeed("bench", program("q4_mean"), "--calls", "5", "--input-shape", "0=1,2")
    assert "median" in text
    fail("bench", program("q4_mean"), "--calls", "5", "--input-shape", "0=2,2,2")
    fail("bench", program("q4_mean"), "--calls", "5", "--input-shape", "5=2")


def test_without_wgpu_the_sentence_says_so():
    inputs, _ = given("q4_mean")
    for arguments in (["devices"], ["run", program("q4_mean"), *inputs], ["bench", program("q4_mean")]):
        assert "wgpu-native" in fail(*arguments, env=NO_GPU)


def read_terminal(arguments: list) -> tuple[bytes, bytes]:
    """What a command prints on stderr when that is a terminal, and on stdout, which is a pipe."""
    terminal, inside = pty.openpty()
    with subprocess.Popen([COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=inside) as process:
        os.close(inside)
        shown, printed = b"", b""
        sources = {terminal, process.stdout.fileno()}
        while sources:
            for source in select.select(sources, [], [], 300)[0]:
                try:
                    chunk = os.read(source, 65536)
                except OSError:  # Linux says so when the other end of a terminal is closed
                    chunk = b""
                if not chunk:
                    sources.remove(source)
                elif source == terminal:
                    shown += chunk
                else:
                    printed += chunk
        assert process.wait() == 0
    os.close(terminal)
    return shown, printed


def test_a_large_load_shows_a_bar_on_a_terminal_only():
    path = program("q4_llama_group_32")
    arguments = ["bench", path, "--calls", "1", "--json"]
    shown, printed = read_terminal(arguments)
    assert b"loading [" in shown
    assert shown.endswith(b"\r\x1b[K")
    json.loads(printed)
    succeed(*arguments)


def test_a_small_load_shows_nothing():
    shown, _ = read_terminal(["bench", program("q4_mean"), "--calls", "1"])
    assert shown == b""
