"""The options of src/options.json: each of them is there, wherever options are given."""

import inspect
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import nibble
from conformance.command import NO_GPU, ROOT, fail, succeed
from conformance.command import program as path_of
from nibble import _program

OPTIONS = json.loads((ROOT / "src" / "options.json").read_text())["options"]
NAMES = [option["name"] for option in OPTIONS]
TUNING = {"choices": [{"choice": "product", "variant": "tile", "rows": [5, 64], "width": [0, 4096]}]}
# A value of each type, and what C is given for it.
VALUES = {
    "text": ("encode", b"encode"),
    "u64": (1 << 40, 1 << 40),
    "flag": (True, 1),
    "names": (["views", "gate_up"], b"views,gate_up"),
    "variants": ({"product": "tile", "attention": "row"}, b"product=tile,attention=row"),
    "tuning": (TUNING, json.dumps(TUNING).encode()),
}

every_option = pytest.mark.parametrize("option", OPTIONS, ids=NAMES)


@pytest.fixture
def given(monkeypatch):
    """Calls nibble.load and tells what it gives to the library, field by field; nothing is loaded."""
    seen = {}

    def remember(_device, _path, options):
        struct = options._obj
        seen.update({name: getattr(struct, name) for name, _ in struct._fields_})

    def load(**options):
        with pytest.raises(nibble.NibbleError):
            nibble.load("model.pte", **options)
        return seen

    monkeypatch.setattr(_program.lib, "nibble_model_load", remember)
    return load


@every_option
@pytest.mark.parametrize("command", ["inspect", "run", "bench"])
def test_option_is_a_flag(option, command):
    text = re.escape(option["text"].replace("`", "").removesuffix("."))
    value = re.escape(option.get("value", ""))
    assert re.search(rf"{option['flag']} +{value}.* {text}", succeed(command, "--help", env=NO_GPU))


@pytest.mark.parametrize("command", ["embed", "search", "generate", "serve"])
def test_options_are_flags_of_commands_that_load_models(command):
    told = " ".join(succeed(command, "--help", env=NO_GPU | {"COLUMNS": "1000"}).split())
    for option in OPTIONS:
        value = f" {option['value']}" if "value" in option else ""
        assert f"{option['flag']}{value} {option['text'].replace('`', '').removesuffix('.')}" in told


@every_option
def test_option_is_a_field_of_the_installed_headers(option):
    headers = Path(nibble.__file__).parent / "include" / "nibble"
    assert re.search(rf" {option['name']};", (headers / "options.h").read_text())
    assert re.search(rf" {option['name']} = ", (headers / "options.hpp").read_text())


@every_option
def test_option_is_a_keyword_with_its_text(option):
    keyword = inspect.signature(nibble.load).parameters[option["name"]]
    assert keyword.kind == inspect.Parameter.KEYWORD_ONLY
    assert not keyword.default
    assert f"{option['name']}: {option['text']}".lower() in " ".join(nibble.load.__doc__.split()).lower()


@every_option
def test_option_reaches_the_library_and_no_other_does(option, given):
    value, wanted = VALUES[option["type"]]
    fields = given(**{option["name"]: value})
    assert fields[option["name"]] == wanted
    assert not any(fields[name] for name in NAMES if name != option["name"])


def test_variants_may_be_a_list_and_a_tuning_a_file(given, tmp_path):
    assert given(variants=("product=tile", "a=b"))["variants"] == b"product=tile,a=b"
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps(TUNING))
    for spelled in (path, str(path)):
        assert json.loads(given(tuning=spelled)["tuning"]) == TUNING


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": 3}, "method must be a text, not 3"),
        ({"max_shard_bytes": -1}, "max_shard_bytes must be a whole number from 0 on, not -1"),
        ({"max_shard_bytes": 1 << 64}, "max_shard_bytes must be a whole number from 0 on, not 18446744073709551616"),
        ({"max_shard_bytes": 1.5}, "max_shard_bytes must be a whole number from 0 on, not 1.5"),
        ({"f16_cache": "no"}, "f16_cache must be true or false, not 'no'"),
        ({"without_passes": "views"}, "without_passes must be a list of names, not 'views'"),
        ({"without_passes": 3}, "without_passes must be a list of names, not 3"),
        ({"variants": [3]}, "variants must be names of choices, each with the name of a variant, not [3]"),
        ({"tuning": 3}, "tuning must be an object with a list of choices, not 3"),
        ({"tuning": {"choices": {3}}}, "tuning must be an object with a list of choices, not {'choices': {3}}"),
        ({"tuning": "no-such.json"}, "'no-such.json' cannot be read: No such file or directory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_value_is_refused(options, sentence):
    with pytest.raises(nibble.NibbleError, match=f"^{re.escape(sentence)}$") as error:
        nibble.load("model.pte", **options)
    assert error.value.code == ("io" if "no-such" in sentence else "invalid_argument")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"tuning": "no\0such.json"}, "a path may not have a NUL in it"),
        ({"tuning": {"choices": [float("nan")]}}, "tuning must be an object with a list of choices, not"),
        ({"method": "forward\0junk"}, "not 'forward\\x00junk'"),
        ({"method": "\ud800"}, "not '\\ud800'"),
        ({"device": "0\0zz"}, "device must be text, not '0\\x00zz'"),
        ({"variants": {"product": "tile,move=walk"}}, "not ['product=tile,move=walk']"),
        ({"without_passes": ["views,gate_up"]}, "not ['views,gate_up']"),
        ({"f16_cache": np.array([1, 2])}, "not array([1, 2])"),
    ],
)
def test_what_c_would_misread_is_refused(options, part):
    with pytest.raises(nibble.NibbleError) as error:
        nibble.load("model.pte", **options)
    assert part in str(error.value)


@pytest.mark.parametrize(("path", "part"), [("model.pte\0junk", "a NUL"), ("\ud800.pte", "half of a character")])
def test_path_that_c_cannot_take_is_refused(path, part):
    with pytest.raises(nibble.NibbleError, match=f"may not have {part} in it") as error:
        nibble.load(path)
    assert error.value.code == "io"


def test_python_and_c_lay_the_options_out_alike(program):
    # The last field of the struct is the progress; a field too few before it, and nothing would be reported.
    seen = []
    nibble.load(program("q4_mean").path, on_progress=lambda *bytes: seen.append(bytes), tuning=TUNING)
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"variants": ["tile"]}, "'tile' forces no variant; it must look like product=tile"),
        ({"variants": {"product": ""}}, "'product=' forces no variant"),
        ({"tuning": {"choices": [{"choice": "product"}]}}, "choices[0] of the tuning has no variant"),
        ({"tuning": {}}, "the tuning has no list of choices"),
        (
            {"tuning": {"choices": [{"choice": "product", "variant": "tile", "rows": [7, 6]}]}},
            "choices[0] of the tuning is for rows from 7 to 6",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_variant_or_tuning_that_is_none_is_told(options, sentence, program):
    with pytest.raises(nibble.NibbleError, match=re.escape(sentence)):
        nibble.load(program("q4_mean").path, **options)


def test_empty_tuning_file_is_no_default(program, tmp_path):
    (tmp_path / "empty.json").touch()
    with pytest.raises(nibble.NibbleError, match="the tuning is not a JSON object"):
        nibble.load(program("q4_mean").path, tuning=tmp_path / "empty.json")


def test_tuning_that_is_no_file_is_told_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    no_file = "it is no regular file"
    for path, why in ((pipe, no_file), ("/dev/zero", no_file), (tmp_path, "Is a directory")):
        with pytest.raises(nibble.NibbleError, match=f"^'{path}' cannot be read: {why}$") as error:
            nibble.load("model.pte", tuning=path)
        assert error.value.code == "io"


def test_tuning_that_is_too_long_is_not_read(tmp_path):
    path = tmp_path / "long.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(nibble.NibbleError, match=f"'{path}' has {1 << 40} bytes, but 4194304 are the most"):
        nibble.load("model.pte", tuning=path)


def test_tuning_is_replayed_from_a_file(tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({"choices": []}))
    model = path_of("q4_mean")
    assert succeed("inspect", model, "--tuning", path, env=NO_GPU) == succeed("inspect", model, env=NO_GPU)
    path.write_text(json.dumps({"choices": [{"choice": "product"}]}))
    assert f"{path}: choices[0] of the tuning has no variant" in fail("inspect", model, "--tuning", path, env=NO_GPU)
    assert "'no-such.json' cannot be opened" in fail("run", model, "--tuning", "no-such.json")


def test_flag_that_forces_no_variant_is_wrong_usage():
    assert "--variant: 'tile' forces no variant" in fail("inspect", "a.pte", "--variant", "tile", code=2, env=NO_GPU)
    number = fail("run", "a.pte", "--max-shard-bytes", "-1", code=2, env=NO_GPU)
    assert "--max-shard-bytes: must be a whole number from 0 on, not -1" in number
