"""Traces: of the command, of the Python package, and of stock ExecuTorch by its Inspector."""

import json
import subprocess

import pytest
import torch

import nibble
from conformance.command import COMMAND, fail, given, program, succeed
from conformance.command import pytestmark as needs_command

OPS = {"et_vk.embedding_q4gsw.default", "aten.mean.dim"}
EMBEDDED = torch.tensor([[3, 0, 1699]])


def has_timestamps() -> bool:
    with nibble.Device() as device:
        return device.info.profile["timestamp_query"]


def read(path) -> tuple[dict[str, str], list[dict]]:
    """Names of threads, and events as the file has them."""
    events = json.loads(path.read_text())["traceEvents"]
    threads = {one["tid"]: one["args"]["name"] for one in events if one["name"] == "thread_name"}
    return threads, [one for one in events if one["ph"] == "X"]


def of_gpu(path) -> list[dict]:
    threads, events = read(path)
    return [one for one in events if threads[one["tid"]] == "GPU"]


def of_host(path) -> list[str]:
    threads, events = read(path)
    return [one["name"] for one in events if threads[one["tid"]] == "host"]


@needs_command
@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_command_writes_a_trace(command, tmp_path):
    inputs, _ = given("q4_mean")
    arguments = [*inputs, "--repeat", 2] if command == "run" else ["--calls", 1]
    done = subprocess.run(
        [COMMAND, command, *map(str, [program("q4_mean"), *arguments, "--trace", tmp_path / "trace.json"])],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
    phases = of_host(tmp_path / "trace.json")
    for phase in ("load", "read", "plan", "compile", "upload", "check inputs", "encode", "submit", "wait", "read back"):
        assert phase in phases
    assert phases.count("read back") >= 2
    if has_timestamps():
        assert done.stderr == ""
        events = of_gpu(tmp_path / "trace.json")
        assert {one["name"] for one in events} == OPS
        assert all(one["args"]["kernel"] and one["args"]["node"] >= 0 and one["dur"] >= 0 for one in events)
    else:
        assert "the trace has the host's work only" in done.stderr


@needs_command
def test_a_trace_that_cannot_be_written_is_told_before_the_work(tmp_path):
    inputs, _ = given("q4_mean")
    missing = tmp_path / "no" / "trace.json"
    nothing = tmp_path / "nothing.pte"
    for path in (missing, tmp_path):
        for arguments in (["run", nothing, *inputs], ["bench", nothing], ["generate", nothing, "hello"]):
            assert f"'{path}' cannot be written" in fail(*arguments, "--trace", path)


@needs_command
def test_a_run_that_fails_leaves_no_trace(tmp_path):
    inputs, _ = given("q4_mean")
    assert "nothing.pte" in fail("run", tmp_path / "nothing.pte", *inputs, "--trace", tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


@needs_command
@pytest.mark.host
def test_generating_is_traced(programs, tmp_path):
    from conformance.generate_cases import VOCABULARY
    from conformance.programs import ExportedProgram
    from support.tiny_model import make_folder

    exported = ExportedProgram.get("llm_greedy", programs)
    folder = make_folder(tmp_path / "model", exported.path, VOCABULARY, stop_ids=[])
    path = tmp_path / "trace.json"
    text = succeed("generate", folder, "hello", "--max-tokens", 5)
    done = subprocess.run(
        [COMMAND, "generate", str(folder), "hello", "--max-tokens", "5", "--trace", str(path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, text)
    phases = of_host(path)
    assert phases.count("choose token") == 5
    assert phases.index("load") < phases.index("choose token")
    assert bool(of_gpu(path)) == has_timestamps()


def test_a_device_is_traced_within_a_block(tmp_path):
    path = tmp_path / "trace.json"
    with nibble.Device() as device, nibble.load(program("q4_mean"), device) as model:
        before = model([[1, 2, 3]])
        with device.trace(path):
            assert (model([[1, 2, 3]]) == before).all()
            assert not path.exists()
            with pytest.raises(nibble.NibbleError, match="being traced already"), device.trace(path):
                pass
        phases = of_host(path)
        assert phases.count("check inputs") == phases.count("read back") == 1
        assert {one["name"] for one in of_gpu(path)} == (OPS if has_timestamps() else set())
        path.unlink()
        with pytest.raises(ZeroDivisionError), device.trace(path):
            raise ZeroDivisionError
        assert not path.exists()
        with pytest.raises(OSError, match="of the caller"), device.trace(path):
            raise OSError("of the caller")
        with device.trace(path):
            pass
        assert read(path) == ({}, [])
        with pytest.raises(nibble.NibbleError, match="cannot be written"), device.trace(tmp_path / "no" / "x.json"):
            pytest.fail("the block began")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a\0b", "a path may not have a NUL in it"),
        ("\ud800", "a path may not have half of a character in it"),
        ("x" * 300, "cannot be written: File name too long"),
        ("x" * 250, "cannot be written: File name too long"),  # while it is unfinished
    ],
    ids=["nul", "half", "long", "almost_as_long"],
)
def test_a_path_that_no_file_can_have_is_told(name, sentence, tmp_path):
    with (
        nibble.Device() as device,
        pytest.raises(nibble.NibbleError, match=sentence) as error,
        device.trace(f"{tmp_path}/{name}"),
    ):
        pass
    assert error.value.code == "io"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["runtime", "module"])
def inspected(request, tmp_path):
    """Gives the Inspector's events after some calls of a program, with times in ms."""
    from executorch.devtools import Inspector
    from executorch.extension.pybindings.portable_lib import _load_for_executorch
    from executorch.runtime import Runtime

    def run(name: str, *calls: list[torch.Tensor]) -> list:
        if request.param == "runtime":
            loaded = Runtime.get().load_program(program(name), enable_etdump=True)
            call = loaded.load_method("forward").execute
        else:
            loaded = _load_for_executorch(str(program(name)), enable_etdump=True)
            call = loaded.forward
        for inputs in calls:
            call(inputs)
        loaded.write_etdump_result_to_file(str(tmp_path / "x.etdump"), str(tmp_path / "x.bin"))
        # The Inspector takes delegates' times as they are: ticks of ExecuTorch's clock, which are nanoseconds.
        inspector = Inspector(
            etdump_path=str(tmp_path / "x.etdump"), delegate_time_scale_converter=lambda _name, ticks: ticks / 1e6
        )
        assert inspector.event_blocks
        return [event for block in inspector.event_blocks for event in block.events]

    return run


def test_the_stock_inspector_shows_each_op_with_its_time(inspected):
    if not has_timestamps():
        pytest.skip("the adapter has no timestamps")
    events = inspected("q4_mean", [EMBEDDED], [EMBEDDED])
    ops = [event for event in events if event.is_delegated_op]
    assert {event.name.split(" #")[0] for event in ops} == OPS
    assert len({event.name for event in ops}) == len(ops)
    (call,) = [event for event in events if event.name == "DELEGATE_CALL"]
    for event in ops:
        assert len(event.perf_data.raw) == 2, "one for each call"
        assert event.delegate_debug_metadatas[0], "the kernels"
        assert all(time >= 0 for time in event.perf_data.raw)
    # The GPU's clock is another one, so a call is held against the sum only roughly.
    for run, whole in enumerate(call.perf_data.raw):
        assert 0 < sum(event.perf_data.raw[run] for event in ops) < whole * 1.05
        start, end = (call.start_time[run], call.start_time[run] + whole * 1e6)
        assert all(start <= event.start_time[run] <= end for event in ops)


@pytest.mark.host
def test_a_language_model_is_shown_op_by_op(inspected):
    if not has_timestamps():
        pytest.skip("the adapter has no timestamps")
    names = [event.name for event in inspected("llm_greedy", [torch.tensor([[1, 2, 3]]), torch.tensor([0])])]
    ops = [name for name in names if " #" in name]
    assert len(ops) > 5
    assert len(set(ops)) == len(ops)
