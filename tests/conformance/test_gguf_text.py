"""Tokenizers of GGUF files: how text is cut and joined, and which tokens end an answer."""

import itertools

import pytest
from tokenizers import Tokenizer

import nibble
from conformance.gguf_files import SPECIAL, TinyModel, vocabulary

pytestmark = pytest.mark.host


def read(path, change=None, **options):
    from nibble._gguf._read import Gguf
    from nibble._gguf._tokenizer import read_text

    return read_text(Gguf(TinyModel(layers=1, **options).write(path / "model.gguf", change)))


def pieces(text, said: str) -> list[str]:
    return Tokenizer.from_str(text.json).encode(said).tokens


@pytest.mark.parametrize(
    ("pre", "wanted"),
    [
        ("smollm", ["Ġthe", "Ġ", "1", "2", "1"]),
        ("default", ["Ġthe", "Ġ", "12", "1"]),
        ("qwen2", ["Ġthe", "Ġ", "1", "2", "1"]),
        ("llama-bpe", ["Ġthe", "Ġ", "12", "1"]),
    ],
)
def test_digits_are_cut_by_the_rule_of_the_file(pre, wanted, tmp_path):
    assert pieces(read(tmp_path, pre=pre), " the 121") == wanted


def test_merges_are_made_in_their_order(tmp_path):
    assert pieces(read(tmp_path), " is in the hall") == ["Ġis", "Ġ", "in", "Ġthe", "Ġ", "h", "a", "ll"]


def set_keys(**values):
    def change(writer):
        for key, value in values.items():
            method = {bool: "add_bool", int: "add_uint32", list: "add_array", str: "add_string"}[type(value)]
            getattr(writer, method)(f"tokenizer.ggml.{key}", value)
        return [f"tokenizer.ggml.{key}" for key in values]

    return change


def test_ends_of_answers_are_those_named_and_those_known(tmp_path):
    assert read(tmp_path).stop_ids == [SPECIAL.index("<|endoftext|>"), SPECIAL.index("<|im_end|>")]
    assert read(tmp_path, set_keys(eot_token_id=7)).stop_ids == [0, 2, 7]
    plain = [1] * len(vocabulary()[0])
    # What is text like any other does not end an answer, whatever it says.
    assert read(tmp_path, set_keys(token_type=plain)).stop_ids == [2]


def test_the_end_that_the_file_names_is_known_among_those_that_stop(tmp_path):
    assert read(tmp_path).eos_id == SPECIAL.index("<|im_end|>")
    assert read(tmp_path, lambda writer: ["tokenizer.ggml.eos_token_id"]).eos_id is None


def test_a_begin_is_added_where_the_file_says_so(tmp_path):
    assert not read(tmp_path).add_bos
    assert read(tmp_path, set_keys(add_bos_token=True)).add_bos


WORDS = ["▁t", "he", "▁the", "▁", "t", "h", "e", "in", "i", "n", "th", "▁in", "the", "hen", "en"]
SCORES = [-1, -2, -0.5, -30, -31, -32, -33, -4, -34, -35, -3.5, -6, -2.5, -7, -8]


def sentence_piece():
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
    return set_keys(
        model="llama",
        tokens=tokens,
        token_type=[2, 3, 3, *[6] * 256, *[1] * len(WORDS)],
        scores=[0.0] * 259 + [float(score) for score in SCORES],
        unknown_token_id=0,
    )


def joined_by_score(text: str) -> list[str]:
    """What SentencePiece does: of all neighbours that make a token, those with the best score, the first ones first."""
    scores, parts = dict(zip(WORDS, SCORES, strict=True)), list("▁" + text.replace(" ", "▁"))
    while True:
        found = [(scores[a + b], -n) for n, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in scores]
        if not found:
            return parts
        at = -max(found)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@pytest.mark.parametrize("said", ["the", "then in the hen", "in", "heth  ent", "tthee", "e"])
def test_sentence_piece_joins_by_score(said, tmp_path):
    text = read(tmp_path, sentence_piece())
    assert pieces(text, said) == joined_by_score(said)
    assert Tokenizer.from_str(text.json).decode(Tokenizer.from_str(text.json).encode(said).ids) == said


def test_sentence_piece_falls_back_to_bytes_and_adds_a_begin(tmp_path):
    text = read(tmp_path, lambda writer: [*sentence_piece()(writer), "tokenizer.ggml.add_bos_token"])
    tokenizer = Tokenizer.from_str(text.json)
    assert tokenizer.encode("é").tokens == ["▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("the 猫").ids) == "the 猫"
    assert text.add_bos
    assert text.stop_ids == [2]


def test_scores_of_other_tokens_are_refused(tmp_path):
    with pytest.raises(nibble.NibbleError, match="scores of 2"):
        read(tmp_path, set_keys(model="llama", scores=[1.0, 2.0]))
