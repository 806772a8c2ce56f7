"""The command `nibble`: results, exit codes, and what it prints where."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.vk00 import Blob

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("NIBBLE_PROGRAMS", ROOT / "build" / "programs"))
COMMAND = os.environ.get("NIBBLE_COMMAND") or shutil.which("nibble", path=str(Path(sys.executable).parent))

pytestmark = pytest.mark.skipif(COMMAND is None, reason="the command nibble is not installed beside this Python")

# Any call to the GPU fails.
NO_GPU = {"NIBBLE_WGPU_LIBRARY": os.devnull}


def nibble(*arguments, env=None) -> subprocess.CompletedProcess:
    command = [COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=300)


def succeed(*arguments, env=None) -> str:
    done = nibble(*arguments, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def fail(*arguments, code=1, env=None) -> str:
    """The one sentence of a failed run, or the lines about wrong usage."""
    done = nibble(*arguments, env=env)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("nibble: ")
    assert done.stderr.count("\n") == code
    return done.stderr


def program(name: str) -> Path:
    path = PROGRAMS / name / "model.pte"
    if not path.exists():
        pytest.skip(f"{path} is not there: run tests/conformance/export_programs.py")
    return path


def given(name: str, call: int = 0) -> tuple[list, list[np.ndarray]]:
    """The --input options of a call, and what eager torch gives for it."""
    folder = program(name).parent
    facts = json.loads((folder / "case.json").read_text())
    inputs = [part for i in range(facts["inputs"]) for part in ("--input", folder / f"in{call}_{i}.npy")]
    return inputs, [np.load(folder / f"torch{call}_{i}.npy") for i in range(facts["outputs"])]


def save(path: Path, array) -> Path:
    np.save(path, array)
    return path


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


def test_inspect_tells_what_a_program_is():
    text = succeed("inspect", program("q4_mean"), env=NO_GPU)
    for part in (
        "inputs",
        "outputs",
        "et_vk.embedding_q4gsw.default",
        "aten.mean.dim",
        "dispatches",
        "constants",
        "slots",
    ):
        assert part in text
    assert "dispatch 0: et_vk.embedding_q4gsw.default" not in text
    plan = succeed("inspect", program("q4_mean"), "--plan", env=NO_GPU)
    assert "dispatch 0: et_vk.embedding_q4gsw.default (node 0)\n  kernel embedding_q4gsw" in plan
    assert "reads constant" in plan


def test_inspect_json_has_all_fields():
    path = program("q4_mean")
    facts = json.loads(succeed("inspect", path, "--json", "--plan", env=NO_GPU))
    assert facts["file"] == str(path)
    assert facts["file_bytes"] == path.stat().st_size
    assert facts["method"] == "forward"
    (ids,) = facts["inputs"]
    assert ids["dtype"] == "int64"
    assert ids["dynamic"] is True
    assert ids["index_rows"] > 0
    assert [output["dtype"] for output in facts["outputs"]] == ["float32"]
    assert {op["name"]: op["count"] for op in facts["ops"]} == {"et_vk.embedding_q4gsw.default": 1, "aten.mean.dim": 1}
    assert all(op["supported"] for op in facts["ops"])
    assert facts["constants"]["count"] == 2
    assert 0 < facts["constants"]["bytes"] <= facts["plan"]["memory"]["constants"] < facts["file_bytes"] + 64
    memory = facts["plan"]["memory"]
    assert set(memory) == {"constants", "states", "slots", "slots_unshared", "staging"}
    assert 0 < memory["slots"] <= memory["slots_unshared"]
    step = facts["plan"]["step"]
    assert step["inputs"] == [ids["shape"]]
    assert step["dispatch_count"] == len(step["dispatches"]) <= facts["plan"]["max_dispatches"]
    for dispatch in step["dispatches"]:
        assert set(dispatch) == {"node", "op", "kernel", "grid", "workgroup", "bindings"}
        assert all(0 < groups <= 65535 for groups in dispatch["grid"])
        assert {binding["role"] for binding in dispatch["bindings"]} <= {"constant", "state", "slot", "fault"}
    assert facts["problem"] is None
    assert "dispatches" not in json.loads(succeed("inspect", path, "--json", env=NO_GPU))["plan"]["step"]


def test_inspect_plans_for_live_shapes():
    path = program("q4_mean")
    bound = json.loads(succeed("inspect", path, "--json", env=NO_GPU))["inputs"][0]["shape"]
    step = json.loads(succeed("inspect", path, "--json", "--input-shape", "0=1,2", env=NO_GPU))["plan"]["step"]
    assert step["inputs"] == [[1, 2]]
    too_long = nibble("inspect", path, "--json", "--shape", f"0=1,{bound[1] + 1}", env=NO_GPU)
    assert too_long.returncode == 1
    assert f"at most [1, {bound[1]}]" in too_long.stderr
    # What is known is printed all the same.
    assert "at most" in json.loads(too_long.stdout)["problem"]
    assert "no input 7" in nibble("inspect", path, "--input-shape", "7=1", env=NO_GPU).stderr


def test_inspect_shards_where_it_is_told_to():
    path = program("q4_llama_group_32")

    def plan(*options):
        return json.loads(succeed("inspect", path, "--json", *options, env=NO_GPU))["plan"]

    assert plan("--max-shard-bytes", 32 << 20)["step"]["dispatch_count"] > plan()["step"]["dispatch_count"]


def test_inspect_plans_for_a_device_that_is_not_here(tmp_path):
    path = program("q4_llama_group_32")
    profile = {
        "name": "a phone",
        "driver": "",
        "backend": "vulkan",
        "kind": "integrated",
        "max_buffer_size": 64 << 20,
        "max_storage_binding_size": 32 << 20,
        "max_workgroups_per_dimension": 65535,
        "max_workgroup_invocations": 32,
        "max_workgroup_size_x": 32,
        "shader_f16": True,
        "packed_dot": False,
        "subgroups": False,
        "timestamp_query": False,
        "subgroup_max": 0,
        "subgroups_need_enable": False,
    }
    file = tmp_path / "phone.json"
    for content in (profile, [profile]):
        file.write_text(json.dumps(content))
        facts = json.loads(succeed("inspect", path, "--json", "--plan", "--device-profile", file, env=NO_GPU))
        assert facts["device"] == "a phone"
        dispatches = facts["plan"]["step"]["dispatches"]
        assert len(dispatches) > 1
        for dispatch in dispatches:
            assert dispatch["workgroup"] <= 32
            assert all(binding["bytes"] <= 32 << 20 for binding in dispatch["bindings"])
    file.write_text(json.dumps([profile, profile]))
    assert "2 device profiles" in fail("inspect", path, "--device-profile", file, env=NO_GPU)
    file.write_text(json.dumps({**profile, "max_buffer_size": "big"}))
    assert "max_buffer_size" in fail("inspect", path, "--device-profile", file, env=NO_GPU)
    file.write_text("{")
    fail("inspect", path, "--device-profile", file, env=NO_GPU)


def test_inspect_tells_what_a_session_keeps():
    path = program("llm_4w_head_18")
    states = json.loads(succeed("inspect", path, "--json", env=NO_GPU))["plan"]["states"]
    lines = re.search(r"^state\n((?:  .*\n)+)", succeed("inspect", path, env=NO_GPU), re.MULTILINE)[1].splitlines()
    assert len(lines) == len(states) > 0
    for line, state in zip(lines, states, strict=True):
        assert re.fullmatch(rf" +{state['role']} +float32 {re.escape(str(state['shape']))} +rows along axis 1", line)


def test_inspect_names_what_lies_outside_the_delegate():
    assert "aten::" in fail("inspect", program("partly_delegated"), env=NO_GPU)


def test_inspect_names_all_reasons_at_once(tmp_path):
    b = Blob()
    x, y, z, out = (b.tensor("float32", [size]) for size in (4, 4, 2, 2))
    b.op("aten.unheard_of.default", [x, y])
    b.op("aten.relu.default", [y, z])
    b.op("aten.relu.default", [y, z])
    b.op("aten.abs.default", [z, out])
    b.inputs, b.outputs = [x], [out]
    path = tmp_path / "refused.pte"
    path.write_bytes(b.pte())
    reasons = [
        "the program uses an operator that Nibble does not have: aten.unheard_of.default",
        "aten.relu.default: out would have shape [4], but the program makes room for [2]",
    ]
    sentence = fail("inspect", path, env=NO_GPU)
    assert sentence == f"nibble: there are 2 reasons why this program cannot run; the first: {reasons[0]}\n"
    printed = nibble("inspect", path, env=NO_GPU).stdout
    assert printed.endswith(f"\nwhy it cannot run\n  1  {reasons[0]}\n  2  {reasons[1]} (at 2 operators)\n")
    facts = json.loads(nibble("inspect", path, "--json", env=NO_GPU).stdout)
    assert facts["problems"] == [{"reason": reasons[0], "operators": 1}, {"reason": reasons[1], "operators": 2}]
    assert facts["problem"] == reasons[0]


# What needs one.


def test_devices_are_listed():
    profiles = json.loads(succeed("devices", "--json"))
    assert profiles
    assert all(profile["max_buffer_size"] > 0 for profile in profiles)
    table = succeed("devices")
    for index, profile in enumerate(profiles):
        assert re.search(rf"^ *{index} +{re.escape(profile['name'])}", table, re.MULTILINE)


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
