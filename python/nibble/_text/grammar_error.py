"""What is wrong with a schema, a pattern or a grammar, in one sentence. llguidance has its own words for it, with its
state, and with lines of a grammar that the user may never have seen."""

import re

from .._native import NibbleError

_MOST = 300
# From here on it tells its state.
_STATE = re.compile(r"\s*<(state|grammar|non-verbose)\b.*", re.DOTALL)
# Lines of the grammar, and marks below them.
_SOURCE = re.compile(r"^\s*(\d+ \|.*|\^+\s*)$", re.MULTILINE)
_PATTERN = re.compile(
    r"(?:invalid regex .*?)?regex parse error:\s*\n(?P<pattern>.*?)\n[ ^]*\nerror: (?P<why>[^\n]*)", re.DOTALL
)
_PLACE = re.compile(r"^(?:at )?(\d+)\((\d+)\): ", re.MULTILINE)
_PHRASES = [
    (r"Invalid type: (.*)", r"the type '\1' is none of JSON's"),
    (r"Unimplemented keys: \[(.*)\]", r"what \1 asks for cannot be kept here"),
    (r"oneOf constraints are not supported.*", "oneOf cannot be kept here where its schemas overlap; anyOf can"),
    (r"Unknown format: (.*)", r"the format '\1' is not known"),
    (r"Unsatisfiable schema: (.*)", r"no text can fit it: \1"),
    (r"Pointer '(.*)' does not exist", r"it has no '\1', to which a $ref points"),
    (r"Resource '(.*)' is not present.*", r"a $ref points to '\1', which is not in it"),
    (r"Expected f64 for '(.*)', got (.*)", r"\1 must be a number, but it is \2"),
    (r"Expected (?:usize|u64|i64|integer) for '(.*)', got (.*)", r"\1 must be a whole number, but it is \2"),
    (r"Expecting object schema to apply options", "it must be an object"),
    (r"circular references with sibling keys.*", "a $ref that comes back to itself cannot have other keys beside it"),
    (r"failed to compile JSON schema: (.*)", r"\1"),
    (r"NoExtensionBias|NoExtension", "no text can fit it"),
    (r'unknown name: ("[^"]*").*', r"there is no rule \1"),
    (r'unknown special token: ("[^"]*").*', r"there is no token \1 in the model"),
    (r'duplicate rule: ("[^"]*").*', r"the rule \1 is there twice"),
    (r"no start rule found", 'there is no rule "start"'),
    (r"Empty grammar", "it is empty"),
    (r"lexer error", "this is no part of a grammar"),
    (r"Expected token (.*?), found (.*?)(?: \(at .*)?", r"\1 should be here, but it is \2"),
]


class GrammarError(NibbleError):
    """`field` is what the user gave it as."""

    def __init__(self, field: str, what: str, reason: str, place: str = ""):
        super().__init__(f"{field} {what}: {place}{reason}", "invalid_argument")
        self.field, self.what, self.reason = field, what, reason

    def of(self, field: str) -> "GrammarError":
        """The same, of a field of which the grammar was made: its own lines say nothing there."""
        return GrammarError(field, self.what, self.reason)


def grammar_error(field: str, what: str, error: object, has_lines: bool) -> GrammarError:
    """has_lines: whether the user wrote a grammar, whose lines and columns can be told."""
    text = _STATE.sub("", str(error))
    text = _PATTERN.sub(_about_pattern, text)
    text = _SOURCE.sub("", text)
    place = _PLACE.search(text)
    text = " ".join(_PLACE.sub("", text).split())
    for _ in range(2):  # what failed may have failed because of something else
        for phrase, own in _PHRASES:
            text = re.sub(f"^(?:{phrase})$", own, text)
    text = text.rstrip(".:; ") or "it cannot be read"
    where = f"line {place[1]}, column {place[2]}: " if place and has_lines else ""
    return GrammarError(field, what, text if len(text) <= _MOST else f"{text[: _MOST - 1]}…", where)


def _about_pattern(found: re.Match) -> str:
    pattern = " ".join(found["pattern"].split())
    shown = pattern if len(pattern) <= 60 else f"{pattern[:59]}…"
    return f"the pattern '{shown}' cannot be read: {found['why']}"
