"""GGUF files that lie, and others that cannot be imported: one sentence each, and nothing is left behind."""

import struct

import numpy as np
import pytest

import nibble
from conformance.gguf_files import TinyModel, Type, vocabulary

pytestmark = pytest.mark.host
MODEL = TinyModel(layers=1, types={"": Type.Q4_1, "token_embd": Type.Q8_0})


def refused(path, tmp_path, **options) -> nibble.NibbleError:
    out = tmp_path / "new" / "out"
    with pytest.raises(nibble.NibbleError) as error:
        nibble.import_gguf(path, out, **options)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    assert not out.parent.exists()
    return error.value


def setting(method: str, key: str, value):
    def change(writer):
        getattr(writer, method)(key, value)
        return (key,)

    return change


def leaving_out(*keys: str):
    return lambda writer: keys


def tensor(name: str, shape: tuple[int, ...], dtype=np.float32, value=0.0):
    def change(writer):
        writer.add_tensor(name, np.full(shape, value, dtype))
        return (name,)

    return change


ROWS = len(vocabulary()[0])
CHANGES = {
    "no_layers": (leaving_out("llama.block_count"), "no 'llama.block_count'"),
    "no_tokens": (leaving_out("tokenizer.ggml.tokens"), "no 'tokenizer.ggml.tokens'"),
    "no_merges": (leaving_out("tokenizer.ggml.merges"), "no 'tokenizer.ggml.merges'"),
    "no_epsilon": (leaving_out("llama.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon"),
    "zero_layers": (setting("add_uint32", "llama.block_count", 0), "'llama.block_count' is 0"),
    "absurd_layers": (setting("add_uint32", "llama.block_count", 4_000_000_000), "is 4000000000"),
    "more_layers_than_there_are": (setting("add_uint32", "llama.block_count", 2), "no tensor 'blk.1."),
    "absurd_heads": (setting("add_uint32", "llama.attention.head_count", 1 << 30), "head_count' is 1073741824"),
    "heads_that_do_not_divide": (setting("add_uint32", "llama.attention.head_count_kv", 3), "4 heads of 16"),
    "layers_in_words": (setting("add_string", "llama.block_count", "two"), "'two', which is not int"),
    "epsilon_that_is_no_number": (
        setting("add_float32", "llama.attention.layer_norm_rms_epsilon", float("nan")),
        "is nan",
    ),
    "wrong_width": (setting("add_uint32", "llama.embedding_length", 128), "must be"),
    "wrong_shape": (tensor("blk.0.attn_q.weight", (64, 32)), "'blk.0.attn_q.weight' is [64, 32]"),
    "missing_tensor": (leaving_out("blk.0.ffn_up.weight"), "no tensor 'blk.0.ffn_up.weight'"),
    "missing_embedding": (leaving_out("token_embd.weight"), "no tensor 'token_embd.weight'"),
    "not_finite": (tensor("blk.0.attn_norm.weight", (64,), value=float("inf")), "not finite"),
    "integers": (tensor("blk.0.attn_q.weight", (64, 64), np.int32, 1), "'blk.0.attn_q.weight' is I32"),
    "eos_past_the_end": (setting("add_uint32", "tokenizer.ggml.eos_token_id", ROWS), f"there are {ROWS} tokens"),
    "token_twice": (setting("add_array", "tokenizer.ggml.tokens", ["a"] * ROWS), "twice"),
    "merge_of_nothing": (setting("add_array", "tokenizer.ggml.merges", ["xx yy"]), "the merge 'xx yy'"),
    "merges_that_are_numbers": (setting("add_array", "tokenizer.ggml.merges", [1, 2]), "not a list of str"),
    "merge_of_one": (setting("add_array", "tokenizer.ggml.merges", ["a"]), "the merge 'a'"),
    "types_of_others": (setting("add_array", "tokenizer.ggml.token_type", [1, 2]), "types of 2"),
    "unknown_rule": (setting("add_string", "tokenizer.ggml.pre", "chess"), "'chess'"),
    "unknown_tokenizer": (setting("add_string", "tokenizer.ggml.model", "t5"), "'t5'"),
    "experts": (setting("add_uint32", "llama.expert_count", 8), "experts"),
    "scaled_positions": (setting("add_string", "llama.rope.scaling.type", "yarn"), "'yarn'"),
    "scaled_positions_by_the_older_name": (
        setting("add_float32", "llama.rope.scale_linear", 2.0),
        "scale_linear' is 2.0",
    ),
    "bias_that_llama_has_not": (tensor("output.bias", (ROWS,)), "'output.bias'"),
    "norms_of_heads": (tensor("blk.0.attn_q_norm.weight", (16,)), "'blk.0.attn_q_norm.weight'"),
    "more_layers_than_it_says": (tensor("blk.1.attn_norm.weight", (64,)), "'blk.1.attn_norm.weight'"),
    "partly_rotated": (setting("add_uint32", "llama.rope.dimension_count", 8), "rope.dimension_count' is 8"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_file_that_cannot_be_is_refused_in_one_sentence(name, tmp_path):
    change, words = CHANGES[name]
    error = refused(MODEL.write(tmp_path / "model.gguf", change), tmp_path)
    assert words in str(error)
    assert error.code in ("invalid_program", "unsupported")


def test_other_architecture_is_named(tmp_path):
    path = TinyModel("gemma", layers=1).write(tmp_path / "model.gguf")
    assert "'gemma'" in str(refused(path, tmp_path))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    return MODEL.write(tmp_path_factory.mktemp("whole") / "model.gguf").read_bytes()


@pytest.mark.parametrize("share", [0, 1e-4, 0.01, 0.1, 0.2, 0.3, 0.5, 0.9, 0.999])
def test_cut_file_is_refused(share, whole, tmp_path):
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[: int(len(whole) * share)])
    refused(path, tmp_path)


def with_number(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + struct.pack("<Q", number) + data[at + 8 :]


BYTES = {
    "other_magic": lambda data: b"GGML" + data[4:],
    "other_version": lambda data: data[:4] + struct.pack("<I", 77) + data[8:],
    "absurd_tensor_count": lambda data: with_number(data, 8, 1 << 60),
    "absurd_key_count": lambda data: with_number(data, 16, 1 << 60),
    "absurd_length_of_a_key": lambda data: with_number(data, 24, (1 << 63) + 5),
    # An array of 4-byte numbers: its length stands after the key, its own type and theirs.
    "absurd_array": lambda data: with_number(
        data, data.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 8, 1 << 60
    ),
    "a_text": lambda data: b"GGUF, but a text and nothing else" * 50,
}


@pytest.mark.parametrize("name", BYTES)
def test_absurd_numbers_are_refused_at_once(name, whole, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(BYTES[name](whole))
    assert "not a whole GGUF file" in str(refused(path, tmp_path))


def test_no_flipped_byte_does_more_than_raise(whole, tmp_path):
    """Of the header; of tensors, every byte is a number."""
    from nibble._gguf._read import Gguf
    from nibble._gguf._shape import read_shape
    from nibble._gguf._tokenizer import read_text

    rng, sentences = np.random.default_rng(11), []
    header = whole.index(b"output_norm.weight")
    for number in range(150):
        data = bytearray(whole)
        data[int(rng.integers(0, header))] ^= 1 << int(rng.integers(0, 8))
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(data)
        try:
            file = Gguf(path)
            read_shape(file)
            read_text(file)
        except nibble.NibbleError as error:
            sentences.append(str(error))
        path.unlink()
    assert sentences
    assert not any("\n" in sentence for sentence in sentences)


@pytest.mark.parametrize("path", ["missing.gguf", "."])
def test_file_that_cannot_be_read_is_named(path, tmp_path):
    assert refused(tmp_path / path, tmp_path).code == "io"


def test_longer_context_than_the_model_has_names_both(tmp_path):
    path = MODEL.write(tmp_path / "model.gguf")
    error = refused(path, tmp_path, context_length=97)
    assert "96" in str(error)
    assert "97" in str(error)


@pytest.mark.parametrize("options", [{"context_length": 1}, {"context_length": True}, {"chunk": 0}, {"chunk": "9"}])
def test_options_that_make_no_sense_are_misuse(options, tmp_path):
    with pytest.raises(ValueError, match="must be a whole number"):
        nibble.import_gguf(MODEL.write(tmp_path / "model.gguf"), tmp_path / "out", **options)


def test_a_folder_is_not_shared_by_two_programs(tmp_path):
    (tmp_path / "other.pte").write_bytes(b"other")
    (tmp_path / "generation.json").write_text('{"program": "other.pte"}')
    with pytest.raises(nibble.NibbleError, match=r"holds 'other\.pte'"):
        nibble.import_gguf(MODEL.write(tmp_path / "model.gguf"), tmp_path / "new.pte")
    assert (tmp_path / "generation.json").read_text() == '{"program": "other.pte"}'


def test_a_factor_of_positions_without_a_kind_is_linear(tmp_path):
    from nibble._gguf._read import Gguf
    from nibble._gguf._shape import read_shape

    plain = read_shape(Gguf(MODEL.write(tmp_path / "plain.gguf"))).speeds
    change = setting("add_float32", "llama.rope.scaling.factor", 4.0)
    assert np.array_equal(read_shape(Gguf(MODEL.write(tmp_path / "scaled.gguf", change))).speeds, plain / 4)


def test_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(nibble.NibbleError, match="taken") as error:
        nibble.import_gguf(MODEL.write(tmp_path / "model.gguf"), tmp_path / "taken" / "out")
    assert error.value.code == "io"
