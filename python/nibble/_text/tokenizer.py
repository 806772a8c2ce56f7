"""A model's tokenizer, by the library `tokenizers`, and the bytes that each token stands for."""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from .._native import NibbleError
from .needed import needed


@functools.cache
def _bytes_of_letters() -> dict[str, int]:
    """Byte-level tokenizers write each byte as a letter: printable ones as themselves, the others from U+0100 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in plain]
    letters = {chr(byte): byte for byte in plain}
    return letters | {chr(0x100 + place): byte for place, byte in enumerate(others)}


class Tokenizer:
    """Text to tokens and back. `path` is a tokenizer.json."""

    def __init__(self, path: Path):
        tokenizers = needed("tokenizers")
        try:
            text = path.read_text(encoding="utf-8")
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
            described = json.loads(text)
        except OSError as error:
            raise NibbleError(f"'{path}' cannot be read: {error.strerror}", "io") from None
        except BaseException as error:
            raise _refusal(error, f"'{path}' is no tokenizer", "invalid_program") from None
        self.text = text
        self.size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self._added = {token["id"]: token for token in described.get("added_tokens", [])}
        self._to_bytes = _way_to_bytes(described.get("decoder"), path)
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, in which the names of special tokens stand for them."""
        try:
            # The library lets other threads run while it takes a batch, but not while it takes a single text.
            (encoded,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
            return encoded.ids
        except BaseException as error:
            raise _refusal(error, "the tokenizer fails on this text", "invalid_argument") from None

    def bytes_of(self, token: int) -> bytes:
        """What a token adds to the text: nothing for a special one, or one that the tokenizer does not know."""
        if (known := self._bytes.get(token)) is None:
            known = self._bytes[token] = self._make_bytes(token)
        return known

    def _make_bytes(self, token: int) -> bytes:
        if (added := self._added.get(token)) is not None:
            return b"" if added.get("special") else added["content"].encode()
        word = self._tokenizer.id_to_token(token)
        return b"" if word is None else self._to_bytes(word)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of whole tokens; what is no text is U+FFFD."""
        return b"".join(map(self.bytes_of, tokens)).decode(errors="replace")

    @property
    def added_ids(self) -> dict[str, int]:
        """The tokens that are not made of others, by name: special ones, and words of the model's language."""
        return {token["content"]: id for id, token in self._added.items()}

    def name_of(self, token: int) -> str:
        """A token as people write it, special ones too."""
        return self._tokenizer.id_to_token(token) or f"<{token}>"


def _refusal(error: BaseException, what: str, code: str) -> BaseException:
    """The library raises plain exceptions, and where its Rust gives up, one that is no Exception."""
    if isinstance(error, Exception) or type(error).__name__ == "PanicException":
        return NibbleError(f"{what}: {' '.join(str(error).split())[:400]}", code)
    return error


def _way_to_bytes(decoder: dict | None, path: Path) -> Callable[[str], bytes]:
    """A function from a token's word to its bytes, as the tokenizer's decoder has it."""
    kinds = {decoder["type"]} if decoder else set()
    if kinds == {"Sequence"}:
        kinds = {part["type"] for part in decoder["decoders"]}
    if "ByteLevel" in kinds:
        return _byte_level
    if kinds & {"ByteFallback", "Metaspace"}:
        return _sentence_piece
    raise NibbleError(
        f"'{path}' has a decoder of kind {', '.join(sorted(kinds)) or 'none'}, but it must be ByteLevel, ByteFallback "
        "or Metaspace",
        "unsupported",
    )


def _byte_level(word: str) -> bytes:
    letters = _bytes_of_letters()
    if all(letter in letters for letter in word):
        return bytes(letters[letter] for letter in word)
    return word.encode()


def _sentence_piece(word: str) -> bytes:
    if len(word) == 6 and word.startswith("<0x") and word.endswith(">"):
        try:
            return bytes([int(word[3:5], 16)])
        except ValueError:
            pass
    return word.replace("\u2581", " ").encode()
