"""The tokenizer of a GGUF file, as the library tokenizers has it: tokenizer.json."""

from dataclasses import dataclass
from enum import IntEnum

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ._read import Gguf

# How text is cut before the merges, by tokenizer.ggml.pre. Some names stand for the same rule.
_WORDS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
_REST = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
_GPT2 = ("gpt-2", "gpt2", "default", "phi-2", "olmo", "jais", "mpt")
_DIGITS = ("smollm", "starcoder", "refact", "codeshell", "command-r")
_PATTERNS = {
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _WORDS + "\\p{N}" + _REST),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3"), _WORDS + "\\p{N}{1,3}" + _REST),
}
_LONGEST = 512
# Tokens that end an answer, where files name them but not as such.
_ENDS = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
)


class Kind(IntEnum):
    """tokenizer.ggml.token_type"""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Text:
    """What turns text into tokens and back, and what is told to who generates."""

    json: str
    bos_id: int | None
    eos_id: int | None
    add_bos: bool
    stop_ids: list[int]
    chat_template: str | None


def read_text(file: Gguf) -> Text:
    tokens = _list_of(file, "tokenizer.ggml.tokens", str)
    kinds = file.get("tokenizer.ggml.token_type", list, [int(Kind.NORMAL)] * len(tokens))
    if len(kinds) != len(tokens):
        raise file.refuse(f"it has {len(tokens)} tokens, but the types of {len(kinds)}")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise file.refuse("a token is there twice")
    model = file.get("tokenizer.ggml.model", str)
    if model == "gpt2":
        tokenizer = _byte_level(file, vocabulary)
    elif model == "llama":
        tokenizer = _sentence_piece(file, vocabulary, tokens, kinds)
    else:
        raise file.refuse(f"its tokenizer is '{model}', but only 'gpt2' and 'llama' can be", "unsupported")
    for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if token and kind in (Kind.UNKNOWN, Kind.CONTROL, Kind.USER_DEFINED):
            special = kind != Kind.USER_DEFINED
            added = AddedToken(token, special=special, normalized=False)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([added])
            if tokenizer.token_to_id(token) != number:
                raise file.refuse(f"token {number} cannot keep its number in a tokenizer")
    bos_id = file.index("tokenizer.ggml.bos_token_id", len(tokens))
    eos_id = file.index("tokenizer.ggml.eos_token_id", len(tokens))
    stops = {eos_id} | {file.index(f"tokenizer.ggml.{name}_token_id", len(tokens)) for name in ("eot", "eom")}
    stops |= {n for n, token in enumerate(tokens) if kinds[n] == Kind.CONTROL and token in _ENDS}
    return Text(
        json=tokenizer.to_str(pretty=False),
        bos_id=bos_id,
        eos_id=eos_id,
        # Tokenizers of SentencePiece begin with it unless told otherwise.
        add_bos=bos_id is not None and file.get("tokenizer.ggml.add_bos_token", bool, model == "llama"),
        stop_ids=sorted(stops - {None}),
        chat_template=file.get("tokenizer.chat_template", str, "") or None,
    )


def _list_of(file: Gguf, key: str, kind: type) -> list:
    values = file.get(key, list)
    if not values or not all(isinstance(value, kind) for value in values):
        raise file.refuse(f"'{key}' is not a list of {kind.__name__}")
    return values


def _byte_level(file: Gguf, vocabulary: dict[str, int]) -> Tokenizer:
    pairs = [tuple(merge.split(" ")) for merge in _list_of(file, "tokenizer.ggml.merges", str)]
    for pair in pairs:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise file.refuse(f"the merge '{' '.join(pair)[:40]}' is not of two tokens that make a third")
    name = file.get("tokenizer.ggml.pre", str, "default")
    # Llama 3 takes a word that is a token as it is, whatever the merges say.
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=name in ("llama-bpe", "llama3", "llama-v3")))
    if name in _GPT2:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif name in _DIGITS:
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    elif name in _PATTERNS:
        cut = pre_tokenizers.Split(Regex(_PATTERNS[name]), "isolated")
        plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, plain])
        if "qwen" in name:
            tokenizer.normalizer = normalizers.NFC()
    else:
        known = ", ".join([*_GPT2[2:3], *_DIGITS, *_PATTERNS])
        raise file.refuse(f"its text is cut by the rule '{name}', but only these are known: {known}", "unsupported")
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentence_piece(file: Gguf, vocabulary: dict[str, int], tokens: list[str], kinds: list[int]) -> Tokenizer:
    """Joins the two neighbours that make the token with the highest score, until none do: merges in that order."""
    scores = _list_of(file, "tokenizer.ggml.scores", float)
    if len(scores) != len(tokens):
        raise file.refuse(f"it has {len(tokens)} tokens, but the scores of {len(scores)}")
    # A token is tried at each of its places, so one of any length would take any time.
    if longest := next((token for token in tokens if len(token) > _LONGEST), None):
        raise file.refuse(f"a token has {len(longest)} characters, but {_LONGEST} is the most", "unsupported")
    # What is no text of its own is never made by a merge.
    parts = {token for token, kind in zip(tokens, kinds, strict=True) if kind == Kind.NORMAL}
    merges = []
    for number, token in enumerate(tokens):
        if token not in parts:
            continue
        splits = [(token[:at], token[at:]) for at in range(1, len(token))]
        found = [(left, right) for left, right in splits if left in parts and right in parts]
        found.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        merges += [(-scores[number], number, pair) for pair in found]
    merges.sort(key=lambda merge: merge[:2])
    unknown = file.index("tokenizer.ggml.unknown_token_id", len(tokens))
    has_bytes = Kind.BYTE in kinds
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary,
            [pair for _, _, pair in merges],
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=has_bytes,
        )
    )
    spaced = [normalizers.Replace(" ", "▁")]
    begins = file.get("tokenizer.ggml.add_space_prefix", bool, True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), *spaced] if begins else spaced)
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)] if begins else back)
    return tokenizer
