"""Language models: text in, text out, as it is generated."""

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._load import load
from .._native import NibbleError
from .._program import Device, DeviceInfo, Model, _Closable
from .constraint import Constraint, Vocabulary, grammar_of
from .folder import read_folder
from .generation import Generation, Prepared
from .generator import Generator, TextStream
from .settings import biases, check_settings, text, texts, token_ids, whole_number
from .template import ChatTemplate, Message
from .tokenizer import Tokenizer

# The device returns so many of the likeliest tokens. Most settings need no more; the others read all logits.
CANDIDATES = 64


class LanguageModel(_Closable):
    """A program with its tokenizer and chat template, as `nibble import` writes them.

    path: the folder, or the .pte in it.
    options: as those of nibble.load().
    """

    def __init__(
        self,
        path: str | os.PathLike,
        device: str | int | Device | DeviceInfo | None = None,
        *,
        engine: str | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ):
        folder = read_folder(Path(path))
        self.name, self.program = folder.name, folder.program
        self.tokenizer = Tokenizer(folder.tokenizer)
        self.stop_ids = folder.stop_ids
        self._bos = [folder.bos_id] if folder.adds_bos else []
        self.template: ChatTemplate | None = None
        if folder.chat_template:
            names = {"bos_token": folder.bos_id, "eos_token": folder.eos_id}
            tokens = {name: self.tokenizer.name_of(id) for name, id in names.items() if id is not None}
            self.template = ChatTemplate(folder.chat_template, tokens)
        options.setdefault("candidates", CANDIDATES)
        self.model: Model = load(folder.program, device, engine=engine, on_progress=on_progress, **options)
        self._vocabulary: Vocabulary | None = None
        self._sizes: tuple[int, int] | None = None  # vocabulary and context, as the first session had them
        self._lock = threading.RLock()
        self._own: TextSession | None = None

    @property
    def device(self) -> Device:
        return self.model.device

    @property
    def context_length(self) -> int:
        """How many tokens prompt and answer can have together."""
        return self._known_sizes()[1]

    def generate(self, prompt: "Prompt", **settings: Any) -> Generation:
        """Generates in the model's own session: see prepare() and TextSession.generate()."""
        return self._own_session().generate(prompt, **settings)

    def session(self) -> "TextSession":
        """A further session, with caches of its own on the same weights."""
        generator = Generator(self.model)
        self._sizes = generator.vocabulary, generator.context_length
        return TextSession(self, generator)

    def tokens_of(
        self, prompt: "Prompt", *, system: str | None = None, raw: bool = False, **variables: Any
    ) -> list[int]:
        """The tokens of a prompt: of text as a user's message, of messages, of text as it is (`raw`), or as given.

        variables: what the chat template may use besides the messages, such as `tools`.
        """
        if system is not None:
            system = text("system", system)
        if isinstance(prompt, str):
            if raw or self.template is None:
                if system is not None:
                    raise NibbleError(
                        "a system message needs a chat template, which this prompt does not use", "invalid_argument"
                    )
                return self._bos + self.tokenizer.encode(text("prompt", prompt))
            prompt = [{"role": "user", "content": text("prompt", prompt)}]
        if not isinstance(prompt, Iterable) or isinstance(prompt, bytes | Mapping):
            what = type(prompt).__name__
            raise NibbleError(f"a prompt must be text, messages or token ids, but it is {what}", "invalid_argument")
        prompt = list(prompt)
        if not (prompt and isinstance(prompt[0], Mapping)):
            if system is not None:
                raise NibbleError("a system message cannot be added to tokens", "invalid_argument")
            return prompt
        if raw:
            raise NibbleError("messages are written by the chat template: raw is for text", "invalid_argument")
        if self.template is None:
            raise NibbleError("this model has no chat template, so it takes text but no messages", "unsupported")
        if system is not None:
            prompt = [{"role": "system", "content": system}, *prompt]
        return self.tokens_of_written(self.template.render(prompt, **variables))

    def tokens_of_written(self, written: str) -> list[int]:
        """The tokens of what the chat template wrote."""
        tokens = self.tokenizer.encode(text("what the chat template writes", written))
        return tokens if tokens[: len(self._bos)] == self._bos else self._bos + tokens

    def prepare(
        self,
        prompt: "Prompt",
        *,
        system: str | None = None,
        raw: bool = False,
        stop: str | Sequence[str] = (),
        stop_ids: Sequence[int] | None = None,
        seed: int | None = None,
        logprobs: bool = False,
        logit_bias: Mapping[int, float] | None = None,
        json_schema: Any = None,
        json_object: bool = False,
        regex: str | None = None,
        grammar: str | None = None,
        shown_ids: Sequence[int] = (),
        **settings: Any,
    ) -> Prepared:
        """All that a generation needs before a session begins it: another thread can do this beforehand.

        prompt: a user's message, a list of messages ({"role", "content"}), or token ids. With `raw` a text is
            completed as it stands.
        system: a system message before them.
        stop, stop_ids: texts and tokens that end it and are not part of the text; by default the model's own tokens.
        seed: what the draws depend on; by default another one each time. Temperature 0, the default, draws nothing.
        logprobs: whether pieces carry the log-probabilities of their tokens; `top_logprobs` says of how many others.
        json_schema, json_object, regex, grammar: what the text must look like; a grammar is one of llguidance (Lark).
        shown_ids: special tokens that the text shall show, by their names; it shows none otherwise.
        settings: temperature, top_k, top_p, min_p, repetition_penalty, repetition_window, presence_penalty,
            frequency_penalty, max_tokens, top_logprobs.
        """
        native = check_settings(settings)
        native["stop_ids"] = self.stop_ids if stop_ids is None else token_ids("stop_ids", stop_ids)
        native["seed"] = secrets.randbits(63) if seed is None else whole_number("seed", seed)
        native["logprobs"] = bool(logprobs or settings.get("top_logprobs"))
        if logit_bias is not None:
            native["logit_bias"] = biases(logit_bias)
        stream = TextStream(texts("stop", stop))
        wanted = grammar_of(schema=json_schema, json_object=json_object, regex=regex, grammar=grammar)
        constraint = None if wanted is None else Constraint(self.vocabulary(), *wanted)
        shown = {id: self.tokenizer.name_of(id).encode() for id in token_ids("shown_ids", shown_ids)}
        return Prepared(self.tokens_of(prompt, system=system, raw=raw), native, stream, constraint, shown)

    def vocabulary(self) -> Vocabulary:
        """For constraints; made when it is first needed."""
        with self._lock:
            if self._vocabulary is None:
                self._vocabulary = Vocabulary(self.tokenizer, self._known_sizes()[0], self.stop_ids)
            return self._vocabulary

    def _known_sizes(self) -> tuple[int, int]:
        if self._sizes is None:
            self._own_session()
        return self._sizes

    def _own_session(self) -> "TextSession":
        with self._lock:
            if self._own is None:
                self._own = self.session()
            return self._own

    def close(self) -> None:
        """Closes the model's own session, and frees the weights once no other session needs them."""
        if self._own is not None:
            self._own.close()
        self.model.close()

    def __repr__(self) -> str:
        return f"<nibble.LanguageModel {self.name}>"


Prompt = str | Sequence[Message] | Sequence[int]


class TextSession(_Closable):
    """One conversation's caches. What it has computed is kept: a prompt that begins as the last one did, or as all that
    was generated, is computed only from where it differs. One generation at a time."""

    def __init__(self, model: LanguageModel, generator: Generator):
        self._model = model
        self._generator = generator
        self._current: object = None  # the generation that the generator works for

    def generate(self, prompt: Prompt, **settings: Any) -> Generation:
        """Begins to generate; iterate over what it returns. See LanguageModel.prepare() for what can be set."""
        return self.begin(self._model.prepare(prompt, **settings))

    def begin(self, prepared: Prepared) -> Generation:
        """Begins what LanguageModel.prepare() made, which can be used once."""
        self._generator.start(prepared.tokens, prepared.settings)
        self._current = Generation(self, prepared)
        return self._current

    @property
    def tokens(self) -> list[int]:
        """The tokens that the session has computed."""
        return self._generator.tokens

    def reset(self) -> None:
        """Forgets everything."""
        self.rewind(0)

    def rewind(self, count: int) -> None:
        """Forgets all but the first `count` tokens."""
        self._generator.rewind(count)

    def fork(self) -> "TextSession":
        """A further session that has computed the same tokens: its caches are copied on the device."""
        return TextSession(self._model, self._generator.fork())

    def save(self, path: str | os.PathLike) -> None:
        """Writes tokens and caches to a file."""
        self._generator.save(path)

    def restore(self, path: str | os.PathLike) -> None:
        """Takes over what save() wrote, in this or another process, with the same program."""
        self._generator.restore(path)

    def close(self) -> None:
        """Frees the session's memory."""
        self._generator.close()


def generate(model: LanguageModel | str | os.PathLike, prompt: Prompt, **settings: Any) -> Generation:
    """Generates text, piece by piece: for piece in nibble.generate("smollm2", "Hello"): print(piece, end="").

    model: a LanguageModel, or the path of one, which is then loaded for this call alone.
    settings: see LanguageModel.prepare().
    """
    if isinstance(model, LanguageModel):
        return model.generate(prompt, **settings)
    loaded = LanguageModel(model)
    try:
        generation = loaded.generate(prompt, **settings)
    except BaseException:
        loaded.close()
        raise
    generation._closes = loaded
    return generation
