"""What users are told about schemas, patterns and grammars that cannot be."""

import pytest

import nibble
from nibble._text.constraint import Constraint, Vocabulary, grammar_of
from nibble._text.grammar_error import grammar_error
from nibble._text.tokenizer import Tokenizer
from support.tiny_model import make_tokenizer

SIZE = 512
STATE = """Parser Error: Current row has 2001 items; max is 2000 <state> Tokens: ⟦a⟧
Stop: ParserTooComplex </state><grammar> start: a </grammar>"""


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    make_tokenizer(SIZE).save(str(path))
    return Vocabulary(Tokenizer(path), SIZE, [SIZE - 2])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"schema": {"type": 5}}, "json_schema cannot be used: type must be a string or array of strings"),
        ({"schema": {"format": "zip", "type": "string"}}, "json_schema cannot be used: the format 'zip' is not known"),
        ({"schema": {"enum": []}}, "json_schema cannot be used: no text can fit it: anyOf is empty"),
        ({"schema": {"if": {}}}, 'json_schema cannot be used: what "if" asks for cannot be kept here'),
        ({"schema": {"$ref": "#"}}, "json_schema cannot be used: no text can fit it"),
        ({"schema": True}, "json_schema must be an object, but it is bool"),
        ({"regex": "("}, "regex cannot be used: the pattern '(' cannot be read: unclosed group"),
        ({"regex": "(a|b"}, "regex cannot be used: the pattern '(a|b' cannot be read: unclosed group"),
        ({"regex": "\\1"}, "regex cannot be used: the pattern '\\1' cannot be read: backreferences are not supported"),
        ({"grammar": ""}, "grammar cannot be used: it is empty"),
        ({"grammar": 'begin: "a"'}, 'grammar cannot be used: there is no rule "start"'),
        ({"grammar": 'start: "b" a\na: foo'}, 'grammar cannot be used: line 2, column 4: there is no rule "foo"'),
        ({"grammar": 'start: "a'}, "grammar cannot be used: line 1, column 10: this is no part of a grammar"),
        ({"grammar": "start: start"}, "grammar cannot be used: no text can fit it"),
        (
            {"grammar": "start: /(/"},
            "grammar cannot be used: line 1, column 8: the pattern '(' cannot be read: unclosed ",
        ),
        ({"grammar": 'start: %json {"type":"x"}'}, "line 1, column 8: the type 'x' is none of JSON's"),
    ],
    ids=str,
)
def test_the_sentence_names_the_field_and_what_is_wrong(vocabulary, given, sentence):
    with pytest.raises(nibble.NibbleError) as raised:
        Constraint(vocabulary, *grammar_of(**given))
    assert sentence in str(raised.value)
    assert raised.value.code == "invalid_argument"
    assert not {"\n", "<", ">", "^"} & set(str(raised.value))


def test_the_state_of_the_library_is_left_out():
    error = grammar_error("grammar", "is too complex for this text", STATE, True)
    wanted = "grammar is too complex for this text: Parser Error: Current row has 2001 items; max is 2000"
    assert str(error) == wanted
    assert str(error.of("tools")) == wanted.replace("grammar", "tools", 1)


def test_what_is_unknown_is_told_in_the_librarys_words_but_not_at_length():
    assert str(grammar_error("regex", "cannot be used", "x" * 1000, False)).endswith("x…")
    assert str(grammar_error("regex", "cannot be used", "<state> all of it", False)).endswith(": it cannot be read")
