"""Models imported from GGUF files: their weights, logits and text."""

import json

import gguf
import numpy as np
import pytest

import nibble
from conformance.gguf_files import CONTEXT, SPECIAL, TEMPLATE, TinyModel, Type, blocks, vocabulary
from conformance.programs import OPENERS, ROUTES
from conformance.test_passes import dispatches

CHUNK = 16
MODELS = {
    # As SmolLM2's file is.
    "llama_q4_1": TinyModel(types={"": Type.Q4_1, "token_embd": Type.Q8_0}),
    "qwen2_q4_0": TinyModel("qwen2", layers=1, kv_heads=1, types={"": Type.Q4_0}, is_tied=False, pre="qwen2"),
    "llama_mixed": TinyModel(
        dim=256,
        hidden=256,
        types={
            "attn_q": Type.Q4_K,
            "attn_k": Type.Q6_K,
            "attn_v": Type.Q5_K,
            "ffn_up": Type.Q8_0,
            "ffn_gate": Type.BF16,
            "ffn_down": Type.F16,
            "token_embd": Type.F16,
            "output.weight": Type.Q4_K,
        },
        is_tied=False,
        pre="llama-bpe",
        factors=tuple(np.linspace(1, 8, 32)),
    ),
    "qwen2_mixed": TinyModel("qwen2", types={"": Type.F32, "attn_q": Type.Q8_0, "ffn": Type.Q4_1}, pre="default"),
    # A width that no group of 32 divides.
    "llama_f32": TinyModel(dim=72, hidden=50, layers=1, types={"": Type.F32}, heads=2, kv_heads=1),
}
EVERYDAY = ("llama_q4_1", "qwen2_q4_0")
ALL = [pytest.param(name, marks=[] if name in EVERYDAY else [pytest.mark.slow]) for name in MODELS]


@pytest.fixture(scope="session")
def imported(tmp_path_factory, programs):
    """Imports a model, unless an earlier run did, with the same importer: exporting takes most of the time."""
    folder, done = tmp_path_factory.mktemp("gguf"), {}

    def get(name: str):
        if name not in done:
            path = MODELS[name].write(folder / f"{name}.gguf")
            done[name] = path, nibble.import_gguf(path, programs.parent / "gguf" / name, chunk=CHUNK)
        return done[name]

    return get


def calls(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Prompts of several lengths at several places, single tokens, and the last place of the caches."""
    rng, place, found = np.random.default_rng(5), 0, []
    for length in (1, 5, CHUNK, 1, 1, CHUNK - 1, 2, CHUNK, CHUNK, 7):
        found.append((rng.integers(0, count, (1, length)), np.array([place])))
        place += length
    found.append((rng.integers(0, count, (1, CONTEXT - place)), np.array([place])))
    found.append((rng.integers(0, count, (1, 9)), np.array([0])))
    return found


@pytest.mark.host
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ALL)
def test_logits_are_those_of_the_weights_in_the_file(name, route, imported):
    path, made = imported(name)
    reference = MODELS[name].reference(path)
    session = OPENERS[route](made.program)
    for tokens, place in calls(made.facts["vocabulary"]):
        (logits,) = session.run(tokens, place)
        wanted = reference.run(tokens, place)
        assert logits.shape == wanted.shape == (1, made.facts["vocabulary"])
        np.testing.assert_allclose(logits, wanted, 0, 2e-4, err_msg=f"{tokens.shape[1]} tokens from place {place[0]}")


@pytest.mark.host
@pytest.mark.parametrize("kind", [Type.Q4_0, Type.Q4_1, Type.Q4_K])
def test_four_bit_weights_are_those_of_the_file_bit_for_bit(kind):
    from nibble._gguf._weights import to_q4

    values = np.random.default_rng(3).standard_normal((40, 512), np.float32) / 20
    data = blocks(values, kind)
    matrix = to_q4(data, kind.name)
    assert (matrix.packed.dtype, matrix.packed.shape) == (np.uint8, (40, 256))
    assert (matrix.scales.dtype, matrix.scales.shape) == (np.float32, (16, 40))
    np.testing.assert_array_equal(matrix.dequantized(), gguf.quants.dequantize(data, kind))


@pytest.mark.host
@pytest.mark.parametrize("name", EVERYDAY)
def test_program_holds_the_weights_of_the_file(name, imported):
    """The bytes of nibbles and steps are in the program as they are: nothing was rounded again."""
    from nibble._gguf._read import Gguf
    from nibble._gguf._weights import read_linear

    path, made = imported(name)
    program = made.program.read_bytes()
    file = Gguf(path)
    for tensor in file.tensors.values():
        if tensor.tensor_type in (Type.Q4_0, Type.Q4_1):
            matrix = read_linear(file, tensor.name, *(int(size) for size in reversed(tensor.shape)))
            for array in (matrix.packed, matrix.scales, matrix.offsets):
                assert array is None or tensor.name == "token_embd.weight" or array.tobytes() in program, tensor.name


@pytest.mark.host
def test_program_tells_runners_what_they_ask_for(imported):
    _, made = imported("llama_q4_1")
    model = nibble.load(made.program)
    assert [(spec.dtype, spec.shape) for spec in model.inputs] == [(np.int64, (1, CHUNK)), (np.int64, (1,))]
    assert model.constants == {
        "get_max_seq_len": CHUNK,
        "get_max_context_len": CONTEXT,
        "get_n_layers": 2,
        "get_vocab_size": made.facts["vocabulary"],
        "get_bos_id": 1,
        "get_eos_ids": [0, 2],
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": True,
        "enable_dynamic_shape": True,
    }


@pytest.mark.host
def test_program_has_the_form_that_the_passes_know(imported):
    program = imported("llama_q4_1")[1].program
    fused, apart = dispatches(program, "0=1,1"), dispatches(program, "0=1,1", "--without-pass", "offset_linears")
    # Without the pass each of 14 linears of Q4_1 has a product of sums, and what adds it.
    assert fused == 24
    assert apart >= fused + 2 * 14


@pytest.mark.host
def test_caches_are_rewound_forked_saved_and_restored(imported, tmp_path):
    def ids(session, prompt, count):
        generation = session.generate(prompt, max_tokens=count, stop_ids=[])
        generation.run()
        return generation.ids, generation.usage.cached_tokens

    prompt = list(range(5, 5 + 2 * CHUNK + 3))
    with nibble.LanguageModel(imported("llama_q4_1")[1].folder) as model, model.session() as session:
        whole, _ = ids(session, prompt, 30)
        session.rewind(CHUNK)
        assert ids(session, prompt, 30) == (whole, CHUNK)
        longer = prompt + whole[:10]
        with session.fork() as other, model.session() as third:
            assert ids(session, [1, 2], 2)[1] == 0
            assert ids(other, longer, 5) == (whole[10:15], len(longer) - 1)
            other.save(tmp_path / "saved")
            third.restore(tmp_path / "saved")
            assert ids(third, prompt + whole[:14], 16) == (whole[14:], len(prompt) + 13)


@pytest.mark.host
def test_facts_say_what_the_file_said(imported):
    path, made = imported("llama_q4_1")
    facts = json.loads((made.folder / "generation.json").read_text())
    assert facts == made.facts
    wanted = {
        "format": 1,
        "name": "Tiny",
        "architecture": "llama",
        "context_length": CONTEXT,
        "chunk": CHUNK,
        "vocabulary": len(vocabulary()[0]),
        "bos_id": 1,
        "eos_id": 2,
        "add_bos": False,
        "stop_ids": [0, 2],
        "chat_template": TEMPLATE,
        "nibble": nibble.__version__,
        "program": "model.pte",
    }
    assert {key: facts[key] for key in wanted} == wanted
    assert facts["file"] == path.name
    assert facts["source"]["types"] == {"Q4_1": 14, "Q8_0": 1, "F32": 5}
    assert facts["quantization"] == {
        "linear Q4_1": "exact: 4-bit groups of 32, with offsets",
        "embedding Q8_0": "requantized: the sum of two tables of 4-bit groups, with the steps of least squared error",
        "head Q8_0": "requantized: 8 bits, one step per row",
    }


@pytest.mark.host
@pytest.mark.parametrize("name", EVERYDAY)
@pytest.mark.parametrize("text", ["the apple is in 1234 halls", "naïve 猫\n\n  x\t", "", "'ll don't WE'LL", "\u0000é"])
def test_text_comes_back_from_its_tokens(name, text, imported):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(imported(name)[1].tokenizer))
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text


@pytest.mark.host
def test_control_tokens_are_special(imported):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(imported("llama_q4_1")[1].tokenizer))
    ids = tokenizer.encode("<|im_start|>the<|im_end|>").ids
    assert (ids[0], ids[-1]) == (SPECIAL.index("<|im_start|>"), SPECIAL.index("<|im_end|>"))
    assert tokenizer.decode(ids) == "the"


@pytest.mark.host
def test_a_second_import_does_nothing(imported):
    path, made = imported("llama_q4_1")
    before = made.program.stat().st_mtime_ns
    steps = []
    again = nibble.import_gguf(path, made.folder, chunk=CHUNK, progress=lambda what, share: steps.append(what))
    assert again.was_there
    assert again.facts == made.facts
    assert steps == ["reading"]
    assert made.program.stat().st_mtime_ns == before
