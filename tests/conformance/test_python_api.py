"""The Python package by itself: loading, errors, quantizing and exporting."""

import numpy as np
import pytest
import torch
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers llama)

import nibble
from conformance.programs import OnExecutorch
from conformance.test_plugin import python

pytestmark = pytest.mark.host


def test_runs_a_program_without_torch(program):
    exported = program("q4_dynamic_length")
    code = """
import sys, numpy, nibble
program = nibble.load(sys.argv[1] + "/model.pte")
result = program(numpy.load(sys.argv[1] + "/in0_0.npy"))
assert numpy.array_equal(result, numpy.load(sys.argv[1] + "/torch0_0.npy"))
assert not {"torch", "executorch", "wgpu"} & set(sys.modules)
"""
    done = python(code, exported.folder)
    assert done.returncode == 0, done.stderr


def test_import_is_light():
    # The GPU's library is there when somebody asks for a device, and not before.
    loaded = "print('wgpu_' in open('/proc/self/maps').read())"
    assert python(f"import nibble; {loaded}; nibble.devices(); {loaded}").stdout.split() == ["False", "True"]


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(nibble.NibbleError, match=r"absent\.pte") as error:
        nibble.load(tmp_path / "absent.pte")
    assert error.value.code == "io"


def test_file_that_is_no_program_is_named(tmp_path):
    (tmp_path / "no.pte").write_bytes(b"no program at all" * 10)
    with pytest.raises(nibble.NibbleError) as error:
        nibble.load(tmp_path / "no.pte")
    assert error.value.code == "invalid_program"


def test_progress_goes_up_to_the_whole(program):
    seen = []
    nibble.load(program("q4_dynamic_length").path, on_progress=lambda done, total: seen.append((done, total)))
    done, totals = zip(*seen, strict=True)
    assert list(done) == sorted(done)
    assert set(totals) == {done[-1]}


def test_exception_in_progress_ends_the_load(program):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nibble.load(program("q4_dynamic_length").path, on_progress=stop)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([[1.5]], "input 0 is float64, but the program takes"),
        ([["one"]], "input 0 is <U3, but the program takes int32 or int64"),
        ([[2**63]], "input 0 is uint64, but the program takes int32 or int64"),
        (
            np.ma.array([[1, 2]], mask=[[False, True]]),
            "input 0 is a masked array, but the program takes int32 or int64",
        ),
        ([np.ma.array([1, 2], mask=[False, True])], "input 0 is a masked array, but the program takes int32 or int64"),
        (np.zeros((1,) * 9, np.int64), "input 0 has 9 dimensions, but the most is 8"),
    ],
)
def test_value_that_is_no_input_is_named(value, sentence, program):
    loaded = nibble.load(program("q4_dynamic_length").path)
    with pytest.raises(nibble.NibbleError) as error:
        loaded(value)
    assert sentence in str(error.value)
    assert error.value.code == "invalid_argument"


@pytest.mark.parametrize(("width", "group_size"), [(64, 32), (10, 5), (6, 1), (30, 30), (256, 32)])
def test_quantizing_keeps_within_half_a_step_or_clips_little(width, group_size):
    table = np.random.default_rng(width).standard_normal((50, width)).astype(np.float32)
    packed, scales = nibble.quantize_q4(table, group_size)
    assert packed.shape == (50, width // 2)
    assert scales.shape == (50, width // group_size)
    error = np.abs(nibble.dequantize_q4(packed, scales, group_size) - table)
    # With the coarsest step tried, nothing is off by more than half of it; the step chosen must not be worse in all.
    coarse = np.repeat(np.abs(table.reshape(50, -1, group_size)).max(-1), group_size, axis=1) / 7
    assert np.square(error).sum() <= np.square(coarse / 2).sum()
    assert (error <= coarse + 1e-6).all()


def test_quantizing_what_is_quantized_changes_nothing():
    rng = np.random.default_rng(0)
    nibbles = rng.integers(1, 16, (20, 64), np.uint8)
    nibbles[:, ::32] = 15  # every group reaches 7 steps
    scales = rng.random((20, 2), np.float32) + np.float32(0.1)
    table = nibble.dequantize_q4(nibbles[:, 0::2] | (nibbles[:, 1::2] << 4), scales)
    again = nibble.dequantize_q4(*nibble.quantize_q4(table))
    np.testing.assert_allclose(again, table, rtol=1e-6)


def test_zeros_and_tiny_numbers_quantize():
    table = np.zeros((3, 64), np.float32)
    table[1] = 1e-45
    packed, scales = nibble.quantize_q4(table)
    assert np.isfinite(scales).all()
    assert np.abs(nibble.dequantize_q4(packed, scales)).max() < 1e-43


@pytest.mark.parametrize(
    ("table", "group_size", "sentence"),
    [
        (np.zeros((2, 7), np.float32), 7, "must be even"),
        (np.zeros((2, 8), np.float32), 3, "a multiple of the group size"),
        (np.zeros((2, 8), np.int32), 4, "must be float"),
        (np.zeros(8, np.float32), 4, "must be float"),
        (np.full((2, 8), np.nan, np.float32), 4, "not finite"),
    ],
)
def test_table_that_cannot_be_quantized_is_refused(table, group_size, sentence):
    with pytest.raises(ValueError, match=sentence):
        nibble.quantize_q4(table, group_size)


@pytest.mark.parametrize("reduce", [None, "mean"])
def test_exported_embedding_gives_the_dequantized_rows(reduce, tmp_path):
    table = np.random.default_rng(7).standard_normal((50, 64)).astype(np.float32)
    path = tmp_path / "table.pte"
    exported = nibble.export_embedding(torch.from_numpy(table), 16, path, reduce=reduce, max_length=10)
    assert exported.not_delegated == []
    assert path.read_bytes() == exported.buffer
    rows = nibble.dequantize_q4(*nibble.quantize_q4(table, 16), 16)
    loaded = nibble.load(path)
    assert loaded.constants == {"get_vocab_size": 50}
    assert loaded.inputs[0].shape == (1, 10)
    stock = OnExecutorch(path)
    for ids in ([[3, 49, 3]], [[0]], [list(range(10))]):
        wanted = rows[ids]
        if reduce == "mean":
            wanted = wanted.mean(1, keepdims=True)
        np.testing.assert_allclose(loaded(ids), wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(stock.run(np.array(ids))[0], loaded(ids))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weight_of_an_embedding_is_exported_as_its_values_are(dtype):
    torch.manual_seed(3)
    weight = torch.nn.Embedding(20, 32, dtype=dtype).weight
    assert weight.requires_grad
    values = weight.detach().float().numpy()
    assert nibble.export_embedding(weight).buffer == nibble.export_embedding(values).buffer


def test_table_of_integers_in_torch_is_refused():
    with pytest.raises(ValueError, match=r"must be float \[rows, width\], but it is int64"):
        nibble.export_embedding(torch.ones(4, 32, dtype=torch.int64))


class Total(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


def test_buffer_that_a_module_changes_is_kept_between_calls(tmp_path):
    path = tmp_path / "total.pte"
    options = {}
    assert nibble.export(Total(), (torch.ones(3),), path=path, compile_options=options).not_delegated == []
    assert options == {}
    loaded, stock = nibble.load(path), OnExecutorch(path)
    x = np.array([1, 2, 3], np.float32)
    for calls in (1, 2, 3):
        np.testing.assert_array_equal(loaded(x), 2 * calls * x)
        np.testing.assert_array_equal(stock.run(x)[0], 2 * calls * x)


class CopiedFirst(Total):
    def forward(self, x):
        before = self.total.clone()
        self.total.add_(x)
        return self.total - before


class ReadLate(Total):
    def forward(self, x):
        after = self.total + x
        result = after * self.total
        self.total.copy_(after)
        return result


@pytest.mark.parametrize("module", [CopiedFirst, ReadLate])
def test_buffer_that_would_be_overwritten_before_it_is_read_is_named(module):
    with pytest.raises(nibble.NibbleError, match=r"buffer 'total' is read by node \w+ after node") as error:
        nibble.export(module(), (torch.ones(3),))
    assert error.value.code == "unsupported"


def test_cache_that_a_custom_op_writes_needs_no_option(tmp_path):
    class Cache(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(1, 4, 1, 8))

        def forward(self, x):
            # The sum is changed in place, but is no buffer.
            row = x + 1
            row.relu_()
            torch.ops.llama.update_cache(row, self.cache, 1)
            return torch.ops.llama.custom_sdpa(row, self.cache, self.cache, 1, None, 0, True)

    path = tmp_path / "cache.pte"
    assert nibble.export(Cache(), (torch.ones(1, 1, 1, 8),), path=path).not_delegated == []
    # Of two keys one is all zeros: the other's share of the result is the sigmoid of its product with the query.
    x = np.full((1, 1, 1, 8), 0.5, np.float32)
    share = 1 / (1 + np.exp(-8 * 1.5**2 / np.sqrt(8)))
    np.testing.assert_allclose(nibble.load(path)(x), 1.5 * share + 0 * x, rtol=1e-5)


def test_option_for_changed_buffers_is_the_callers_where_given(tmp_path):
    path = tmp_path / "total.pte"
    nibble.export(Total(), (torch.ones(3),), path=path, compile_options={"alias_buffer_mutations": False})
    with pytest.raises(nibble.NibbleError, match="passes 2 values to the delegate"):
        nibble.load(path)


def test_export_says_what_is_not_delegated(tmp_path):
    class Partly(torch.nn.Module):
        def forward(self, x):
            return (x + 1).cumsum(0)

    path = tmp_path / "partly.pte"
    reason = r"not delegated: aten.cumsum.default \(node \w+\): Nibble does not have aten.cumsum.default"
    with pytest.warns(UserWarning, match=reason):
        exported = nibble.export(Partly(), (torch.ones(3),), path=path)
    assert len(exported.not_delegated) == 1
    with pytest.raises(nibble.NibbleError, match="cumsum") as error:
        nibble.load(path)
    assert error.value.code == "unsupported"
    np.testing.assert_allclose(OnExecutorch(path).run(np.ones(3, np.float32))[0], np.array([2, 4, 6], np.float32))


def test_export_takes_dynamic_shapes_and_constant_methods(tmp_path):
    class Add(torch.nn.Module):
        def forward(self, a, b):
            return a + b, a - b

    length = torch.export.Dim("length", max=8)
    path = tmp_path / "add.pte"
    nibble.export(
        Add(), (torch.ones(3), torch.ones(3)), ({0: length}, {0: length}), path, constant_methods={"get_one": 1}
    )
    loaded = nibble.load(path)
    assert loaded.constants == {"get_one": 1}
    for n in (8, 1, 5):
        a, b = np.arange(n, dtype=np.float32), np.full(n, 2, np.float32)
        total, difference = loaded(a, b)
        np.testing.assert_array_equal(total, a + b)
        np.testing.assert_array_equal(difference, a - b)


def test_a_path_that_cannot_be_written_is_told_before_the_export(tmp_path):
    with pytest.raises(nibble.NibbleError, match="cannot be written: its folder is missing or read-only") as error:
        nibble.export_embedding(np.ones((4, 32), np.float32), path=tmp_path / "missing" / "table.pte")
    assert error.value.code == "io"


def test_a_program_that_cannot_be_saved_is_not_lost(tmp_path):
    exported = nibble.export_embedding(np.ones((4, 32), np.float32))
    with pytest.raises(nibble.NibbleError, match="cannot be written"):
        exported.save(tmp_path / "missing" / "table.pte")
    exported.save(tmp_path / "table.pte")
    assert [file.name for file in tmp_path.iterdir()] == ["table.pte"]


def test_program_of_several_methods_runs_the_one_that_is_asked_for(tmp_path):
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import to_edge_transform_and_lower

    class Twice(torch.nn.Module):
        def forward(self, x):
            return x * 2

    class Next(torch.nn.Module):
        def forward(self, x):
            return x + 1

    modules = {"twice": Twice(), "next": Next()}
    programs = {name: torch.export.export(m, (torch.zeros(3),)) for name, m in modules.items()}
    path = tmp_path / "two.pte"
    path.write_bytes(to_edge_transform_and_lower(programs, partitioner=[VulkanPartitioner()]).to_executorch().buffer)
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(nibble.load(path, method="twice").run(x), 2 * x)
    np.testing.assert_array_equal(nibble.load(path, method="next").run(x), x + 1)
    with pytest.raises(nibble.NibbleError, match="no method 'forward'; the methods that compute are: 'next', 'twice'"):
        nibble.load(path)
