"""Convolutions on the device."""

import json

import numpy as np
import pytest

import nibble
from conformance import convolution_cases, depthwise_cases
from conformance.blob_cases import build
from conformance.command import NO_GPU, pytestmark, succeed  # noqa: F401
from conformance.programs import ROUTES, check_built, every_route, everyday, open_built
from support.vk00 import Blob


@every_route([*convolution_cases.ALL, *depthwise_cases.ALL])
def test_convolution_gives_what_torch_gives(name, route, program):
    exported = program(name)
    exported.check_calls(exported.open(route))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", everyday(convolution_cases.BUILDERS))
def test_built_convolution_gives_what_numpy_gives(name, route, tmp_path):
    made = build(convolution_cases.BUILDERS[name], name)
    check_built(open_built(made, tmp_path, route), made)


def test_constant_filters_are_arranged_at_load(program):
    facts = json.loads(succeed("inspect", program("convolution_even").path, "--json", env=NO_GPU))
    # Four products; for two filters that are larger than a pixel, the pixels are laid out before.
    assert facts["plan"]["step"]["dispatch_count"] == 6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"groups": 3}, "groups is 3, which does not divide the input's 4 channels"),
        ({"stride": [0, 1]}, "stride is 0, but it must be from 1 to 2147483647"),
        ({"padding": [-1, 0]}, "padding is -1"),
        ({"dilation": [1, 1, 1]}, "dilation has 3 entries, but there are 2 dimensions"),
        (
            {"weight": [2, 4, 9, 3]},
            "dimension 2 of the input has 5 entries and a padding of 0, but the filter covers 9",
        ),
        ({"weight": [2, 3, 3, 3]}, "does not fit"),
        ({"bias": [1]}, "bias has shape [1], but there are 2 output channels"),
    ],
)
def test_bad_arguments_get_a_sentence(change, sentence, tmp_path):
    given = {"weight": [2, 4, 3, 3], "bias": [2], "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1}
    given |= change
    b = Blob()
    x, out = b.tensor("float32", [1, 4, 5, 5]), b.tensor("float32", [1, 2, 3, 3])
    weight, bias = (b.constant(np.ones(given[name], np.float32)) for name in ("weight", "bias"))
    lists = [b.ints(given[name]) for name in ("stride", "padding", "dilation")]
    rest = [b.boolean(False), b.ints([0, 0]), b.integer(given["groups"])]
    b.op("aten.convolution.default", [x, weight, bias, *lists, *rest, out])
    b.inputs, b.outputs = [x], [out]
    path = tmp_path / "model.pte"
    path.write_bytes(b.pte())
    with pytest.raises(nibble.NibbleError, match=r"^aten\.convolution\.default: ") as error:
        nibble.load(path)
    assert sentence in str(error.value)
