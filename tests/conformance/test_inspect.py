"""nibble inspect: what a program is, how it would run, and why it cannot. It needs no adapter."""

import json
import re

from conformance.command import NO_GPU, fail, nibble, program, pytestmark, succeed  # noqa: F401
from support.vk00 import Blob


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
        assert set(dispatch) == {"node", "op", "kernel", "grid", "first_group", "workgroup", "bindings"}
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
    for text in ("{", "[" * 100000 + "]" * 100000):
        file.write_text(text)
        assert "not a JSON object" in fail("inspect", path, "--device-profile", file, env=NO_GPU)


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
