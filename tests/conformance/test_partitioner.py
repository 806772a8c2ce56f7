"""nibble.Partitioner: what it delegates beyond the stock partitioner, and what programs from it give."""

import json
import subprocess
import warnings

import executorch.backends.vulkan.partitioner.vulkan_partitioner as stock
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower

import nibble
from conformance.case import Function, as_arrays
from conformance.programs import OnNibble, check_results
from conformance.test_registry import COMMAND
from nibble._native import lib

pytestmark = pytest.mark.host

Dim = torch.export.Dim
attend = torch.nn.functional.scaled_dot_product_attention


def tensors(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def export(function, inputs, path, dynamic=None) -> set[str]:
    """Exports a module, or a function of tensors, into one delegate; gives its operators."""
    is_module = isinstance(function, torch.nn.Module)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="not delegated")
        module = function if is_module else Function(lambda _, *tensors: function(*tensors))
        nibble.export(module, inputs, dynamic, path)
    told = json.loads(subprocess.run([COMMAND, "inspect", "--json", path], capture_output=True, text=True).stdout)
    return {op["name"] for op in told["ops"]}


def check(function, path, *calls, rtol=1e-5, atol=1e-5) -> None:
    session = OnNibble(path)
    for number, inputs in enumerate(calls):
        results = session.run(*(tensor.numpy() for tensor in inputs))
        check_results(results, as_arrays(function(*inputs)), rtol, atol, f"call {number}")


def test_forms_that_the_stock_partitioner_refuses(tmp_path):
    aten = torch.ops.aten

    def forms(x, n):
        return (
            x.mean(0),
            x.sum((0, 2)),
            x.argmax(1),
            torch.maximum(x, x.flip(0)),
            torch.where(n > 2, n, -n),
            n.abs().amax(1),
            aten.mul.Scalar(x, 3),
            aten.add.Scalar(x, 1.5, 2),
            aten.sub.Scalar(n, 2),
            aten.div.Scalar(x, 7),
            x.fmod(0.7),
            torch.fmod(n, 3),
            n.fmod(1.5),
            x.remainder(-0.7),
            n % n.abs().clamp(1, 3),
            x.any(),
            (n > 4).any(1),
            n.any(0, keepdim=True),
            (x > -9).all(),
            x.unsqueeze(0).unsqueeze(0).softmax(2),
            torch.isnan(x / x.relu()) | torch.isinf(1 / x.relu()),
            torch.erf(x) + torch.sinh(x) * torch.cosh(x),
        )

    inputs = (*tensors((3, 4, 5)), torch.arange(-5, 7, dtype=torch.int32).reshape(3, 4))
    export(forms, inputs, tmp_path / "model.pte")
    check(forms, tmp_path / "model.pte", inputs)


def test_convolutions_and_samplings_that_the_stock_partitioner_refuses(tmp_path):
    f = torch.nn.functional
    one, two, turned = tensors((6, 3, 3), (4, 3, 3, 3), (3, 4, 3))

    def forms(line, picture, grid):
        modes = [
            (m, p, a)
            for m in ("bilinear", "nearest", "bicubic")
            for p in ("zeros", "border", "reflection")
            for a in (False, True)
        ]
        return (
            f.conv1d(line, one, padding=1),
            f.conv2d(picture, two, stride=2),
            f.conv_transpose1d(line, turned, stride=2, output_padding=1),
            f.adaptive_avg_pool2d(picture, (3, 2)),
            f.adaptive_avg_pool2d(picture, 1),
            *(f.grid_sample(picture, grid, *mode) for mode in modes),
        )

    inputs = tensors((2, 3, 9), (2, 3, 9, 8), (2, 4, 5, 2))
    export(forms, inputs, tmp_path / "model.pte")
    check(forms, tmp_path / "model.pte", inputs, atol=1e-4)


def test_attention_stays_one_operator(tmp_path):
    def forms(q, k, v, mask):
        seen = mask > -0.5
        return (
            attend(q, k, v),
            attend(q, k, v, scale=0.3),
            attend(q, k, v, mask),
            attend(q, k, v, seen & (torch.arange(6).unsqueeze(1) != 2)),
            attend(q, k[:, :2], v[:, :2], enable_gqa=True),
            attend(q, k, v, is_causal=True),
        )

    inputs = tensors((2, 4, 6, 8), (2, 4, 9, 8), (2, 4, 9, 8), (2, 1, 6, 9))
    ops = export(forms, inputs, tmp_path / "model.pte")
    assert "et_vk.sdpa.default" in ops
    assert not ops & {"aten.bmm.default", "aten._softmax.default"}
    check(forms, tmp_path / "model.pte", inputs)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3, 4)])
def test_attention_of_any_rank_stays_one_operator(batch, tmp_path):
    def forms(q, k, v, mask):
        return attend(q, k, v), attend(q, k, v, mask), attend(q, k, v, mask > 0.5), attend(q, k, v, is_causal=True)

    inputs = tensors((*batch, 6, 8), (*batch, 9, 8), (*batch, 9, 5), (6, 9))
    ops = export(forms, inputs, tmp_path / "model.pte")
    assert "et_vk.sdpa.default" in ops
    assert not ops & {"aten.bmm.default", "aten._softmax.default"}
    check(forms, tmp_path / "model.pte", inputs)


def test_causal_attention_of_a_dynamic_length(tmp_path):
    def causal(x):
        return attend(x, x, x, is_causal=True)

    length = Dim("length", min=1, max=32)
    calls = [tensors((1, 2, n, 16)) for n in (7, 32, 1, 9)]
    ops = export(causal, calls[0], tmp_path / "model.pte", (({2: length},),))
    assert "et_vk.sdpa.default" in ops
    check(causal, tmp_path / "model.pte", *calls)


def test_partitioner_works_in_the_stock_pipeline_and_says_why_a_node_stays_outside():
    class Module(torch.nn.Module):
        def forward(self, x):
            whole = x.to(torch.int32)[None]
            return torch.maximum(x, x + 1).cumsum(0).double() * 2, torch.mm(whole.T, whole)

    partitioner = nibble.Partitioner()
    exported = torch.export.export(Module(), (torch.ones(3),))
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    reasons = sorted(partitioner.outside.values())
    assert any("does not have aten.cumsum.default" in reason for reason in reasons)
    assert any("float64" in reason for reason in reasons)
    assert any("int32" in reason for reason in reasons), "what the planner says of types"
    (plan,) = edge.to_executorch().executorch_program.execution_plan
    assert [delegate.id for delegate in plan.delegates] == ["VulkanBackend"]


def test_planner_is_asked_about_single_nodes():
    def refusal(node) -> str:
        return "" if lib.nibble_check_node(json.dumps(node).encode()) else lib.nibble_error().decode()

    x = {"dtype": "float32", "shape": [2, 3]}
    node = {"op": "aten.mm.default", "arguments": [x, {**x, "shape": [3, 4], "constant": True}]}
    assert refusal({**node, "out": {**x, "shape": [2, 4]}}) == ""
    assert "aten.mm.default" in refusal({**node, "arguments": [x, x], "out": x})
    assert "aten.mm.default" in refusal({**node, "out": {**x, "dtype": "int32", "shape": [2, 4]}})
    for broken in (3, [], {}, {"op": 1}, {**node, "out": {"dtype": "complex64", "shape": [1]}}):
        assert "describes no node" in refusal(broken)


def test_stock_partitioner_is_left_as_it_is():
    nibble.Partitioner()
    exported = torch.export.export(Function(lambda _, x: torch.maximum(x, -x)), (torch.ones(3),))
    edge = to_edge_transform_and_lower(exported, partitioner=[stock.VulkanPartitioner()])
    (plan,) = edge.to_executorch().executorch_program.execution_plan
    assert [operator.name for operator in plan.operators] == ["aten::maximum"]


def test_examples_and_weights_may_be_in_another_order_of_memory(tmp_path):
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.ReLU()).eval()
    (picture,) = tensors((2, 3, 8, 9))
    wanted = module(picture).detach()
    module.to(memory_format=torch.channels_last)
    export(module, (picture.to(memory_format=torch.channels_last),), tmp_path / "model.pte")
    check(lambda _: wanted, tmp_path / "model.pte", (picture,))
