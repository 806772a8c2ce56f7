"""All that follows from the one description of the options: options.py OPTIONS_JSON OUTPUT_FOLDER.

Makes the C++ struct (nibble/options.hpp), the C struct (nibble/options.h), what walks over the options in C++
(option_fields.hpp), Python's nibble.load (_load.py) and the type in TypeScript (option_types.ts). The record that
crosses to the planner in WebAssembly is made by wire.py, which asks this file for it.
"""

import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

MADE = "Made from src/options.json by scripts/options.py."
WIDTH = 120


@dataclass(frozen=True)
class Kind:
    """How a type of option looks in each language, and the one default that C can have: all bits zero."""

    cpp: str
    c: str
    c_note: str
    ctypes: str
    python: str
    ts: str
    wire: str
    zero: object


KINDS = {
    "text": Kind("std::string", "const char*", "", "c_char_p", "str", "string", "text", ""),
    "u64": Kind("std::uint64_t", "uint64_t", "", "c_uint64", "int", "number", "u64", 0),
    "flag": Kind("bool", "int32_t", "", "c_int32", "bool", "boolean", "bool", False),
    "names": Kind(
        "std::vector<std::string>",
        "const char*",
        "several with commas between",
        "c_char_p",
        "Iterable[str]",
        "readonly string[]",
        "list<text>",
        [],
    ),
    "variants": Kind(
        "std::vector<ForcedVariant>",
        "const char*",
        "several with commas between",
        "c_char_p",
        "Mapping[str, str] | Iterable[str]",
        "Readonly<Record<string, string>>",
        "list<ForcedVariant>",
        [],
    ),
    "tuning": Kind(
        "std::vector<TuningRow>",
        "const char*",
        "as JSON",
        "c_char_p",
        "str | os.PathLike | Mapping | None",
        "Tuning",
        "Tuning",
        [],
    ),
}


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True)
class Option:
    name: str
    type: str
    default: object
    flag: str
    text: str
    wanted: str
    value: str = ""
    zero: int | None = None  # what a limit of 0 stands for, since C can have no other default
    native: bool = False  # the web has none
    kernels: bool = True  # False: whatever it is, the plan of a graph has the same kernels to choose from

    @property
    def kind(self) -> Kind:
        return KINDS[self.type]

    @property
    def camel(self) -> str:
        return camel(self.name)

    @property
    def plain_text(self) -> str:
        """For places where a backtick is no markup."""
        return self.text.replace("`", "")

    @property
    def must_be(self) -> str:
        return f"must be {self.wanted}"


def in_words(number: int) -> str:
    gib = 1 << 30
    return f"{number // gib} GiB" if number % gib == 0 else str(number)


def read(path: Path) -> list[Option]:
    description = json.loads(path.read_text())
    options = [Option(wanted=description["types"][one["type"]], **one) for one in description["options"]]
    for option in options:
        if option.default != option.kind.zero:
            raise SystemExit(f"{path}: {option.name} has the default {option.default!r}, but C knows only zero")
        if not option.text.endswith(".") or "*/" in option.text:
            raise SystemExit(f"{path}: the text of {option.name} must be a sentence for all languages")
        if option.zero is not None and not option.text.endswith(f"; 0 means {in_words(option.zero)}."):
            raise SystemExit(f"{path}: the text of {option.name} must say that 0 means {in_words(option.zero)}")
    return options


def quoted(text: str) -> str:
    """A literal of C++, Python and TypeScript alike."""
    return json.dumps(text, ensure_ascii=False)


def doc(mark: str, text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{indent}{mark} ", subsequent_indent=f"{indent}{mark} ")


def cpp_struct(options: list[Option]) -> str:
    lines = [f"// {MADE}", "#pragma once", "", "#include <cstdint>", "#include <string>", "#include <vector>", ""]
    lines += ['#include "nibble/tuning.hpp"', "", "namespace nibble {", ""]
    lines += ["/// What a plan depends on beside the program and the device.", "struct Options {"]
    for option in options:
        value = json.dumps(option.default) if isinstance(option.default, int) else "{}"
        lines += [*doc("///", option.text), f"  {option.kind.cpp} {option.name} = {value};"]
    lines += ["};", "", "/// What a limit of 0 stands for.", "struct DefaultLimits {"]
    lines += [
        f"  static constexpr std::uint64_t {option.name} = {option.zero};"
        for option in options
        if option.zero is not None
    ]
    return "\n".join([*lines, "};", "", "}  // namespace nibble", ""])


def c_struct(options: list[Option]) -> str:
    lines = [f"/* {MADE} */", "#ifndef NIBBLE_OPTIONS_H", "#define NIBBLE_OPTIONS_H", "", "#include <stdint.h>", ""]
    lines += ["/* Bytes of weights uploaded so far, and in all. */"]
    lines += ["typedef void (*nibble_progress)(uint64_t done, uint64_t total, void* user);", ""]
    lines += ["/* Zero everywhere means the defaults. */", "typedef struct nibble_load_options {"]
    for option in options:
        note = f"; {option.kind.c_note}" if option.kind.c_note else ""
        text = f"/* {option.plain_text[:-1]}{note}. */"
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="     ")
        lines.append(f"  {option.kind.c} {option.name};")
    lines += ["  nibble_progress progress;", "  void* user; /* for progress */"]
    lines += ["  /* Before that, if the load measures a tuning: how many cases are done, and how many there are. */"]
    lines += ["  nibble_progress tuning_progress;", "} nibble_load_options;", ""]
    return "\n".join([*lines, "#endif", ""])


def cpp_fields(options: list[Option]) -> str:
    lines = [f"// {MADE}", "#pragma once", "", "#include <string_view>", ""]
    lines += ['#include "graph/status.hpp"', '#include "nibble/options.hpp"', "", "namespace nibble {", ""]
    lines += ["/// An option as people see it.", "struct OptionText {", "  std::string_view name;"]
    lines += ["  std::string_view flag;   ///< on the command line", "  std::string_view value;  ///< what follows it"]
    lines += ["  std::string_view text;", "  std::string_view must_be;"]
    lines += ["  bool kernels;  ///< whether the kernels of a plan depend on it", "};", ""]
    lines += ["/// Calls the visitor's function for the type of each option, with its text and its field."]
    lines += ["template <class Visitor, class Options>"]
    lines += ["void visit_options(Visitor&& visitor, Options& options) {"]
    for option in options:
        about = (option.name, option.flag, option.value, option.plain_text, option.must_be)
        words = ", ".join([*map(quoted, about), json.dumps(option.kernels)])
        lines.append(f"  visitor.{option.type}(OptionText{{{words}}}, options.{option.name});")
    lines += ["}", "", "/// Options from a record with the same fields, each converted by `take(from, to)`."]
    lines += ["template <class Record, class Take>", "Result<Options> take_options(const Record& from, Take take) {"]
    lines.append("  Options to;")
    for option in options:
        there = f"if constexpr (requires {{ from.{option.name}; }}) " if option.native else ""
        lines.append(f"  {there}TRY(take(from.{option.name}, to.{option.name}));")
    return "\n".join([*lines, "  return to;", "}", "", "}  // namespace nibble", ""])


PYTHON_HEAD = '''"""nibble.load."""

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping
from ctypes import c_char_p, c_int32, c_uint64, c_void_p

from ._loading import load_program, tune_program
from ._native import Progress
from ._options import take_flag, take_names, take_text, take_tuning, take_u64, take_variants
from ._program import Device, DeviceInfo, Model


class LoadOptions(ctypes.Structure):
    """nibble_load_options"""

    _fields_ = (
'''

PYTHON_LOAD = """

def load(
    path: str | os.PathLike,
    device: str | int | Device | DeviceInfo | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    engine: str | None = None,
    on_tuning: Callable[[int, int], None] | None = None,
"""

PYTHON_TUNE = '''

def tune(
    path: str | os.PathLike,
    device: str | int | Device | DeviceInfo | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    engine: str | None = None,
    output: str | os.PathLike | None = None,
    **options,
) -> dict:
    """Measures which kernel variants are the fastest for a program on a GPU, and gives the tuning, which is kept for
    later loads. What was measured until Ctrl-C is kept as well.

    device, engine: as for load().
    on_progress: called with the number of cases that are done, and of all cases.
    output: the file that the tuning is added to, such as model.tuning.json beside model.pte; by default one in the
        user's cache folder, where load() finds it.
    options: those of load(); tune_ms limits the time.
    """
    return tune_program(path, device, engine, on_progress, output, _take(**options))
'''

PYTHON_DOC = '''    """Loads a .pte file onto a GPU.

    device: an open Device, or which one to open: an index, a kind ("cpu", "integrated", "discrete"), a part of a name
        or one of devices(); by default what $NIBBLE_DEVICE says, else the best adapter.
    engine: the WebGPU implementation, "dawn" or "wgpu"; by default what $NIBBLE_ENGINE says, else any.
    on_progress: called with the bytes of weights uploaded so far, and in all.
    on_tuning: called before that, if the load measures a tuning: with the number of cases that are done, and of all.
'''


def python_load(options: list[Option]) -> str:
    lines = [f'        ("{option.name}", {option.kind.ctypes}),' for option in options]
    fields = [
        *lines,
        '        ("progress", Progress),',
        '        ("user", c_void_p),',
        '        ("tuning_progress", Progress),',
        "    )",
        "",
    ]
    flags = [
        f"    ({', '.join(map(quoted, (one.name, one.type, one.flag, one.value, one.must_be, one.plain_text[:-1])))}),"
        for one in options
    ]
    defaults = {"text": '""', "names": "()", "variants": "()", "tuning": "None"}
    keywords = [
        f"    {option.name}: {option.kind.python} = {defaults.get(option.type, option.default)}," for option in options
    ]
    texts = []
    for option in options:
        text = f"{option.name}: {option.text[0].lower()}{option.text[1:]}"
        texts += textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="        ")
    taken = [
        f"        {option.name}=take_{option.type}({option.name}, {quoted(f'{option.name} {option.must_be}')}),"
        for option in options
    ]
    return "\n".join(
        [
            f"# {MADE}",
            PYTHON_HEAD + "\n".join(fields),
            "",
            "# For commands: name, type, flag, name of the value, what it must be, and the text without its full stop.",
            "FLAGS = (",
            *flags,
            ")",
            PYTHON_LOAD + "\n".join(keywords),
            ") -> Model:",
            PYTHON_DOC + "\n".join(texts),
            '    """',
            "    options = _take(",
            *[f"        {option.name}={option.name}," for option in options],
            "    )",
            "    return load_program(path, device, engine, on_progress, on_tuning, options)",
            PYTHON_TUNE,
            "",
            "def _take(",
            "    *,",
            *keywords,
            ") -> LoadOptions:",
            "    return LoadOptions(",
            *taken,
            "    )",
            "",
        ]
    )


def on_the_web(options: list[Option]) -> list[Option]:
    return [option for option in options if not option.native]


def ts_type(options: list[Option]) -> str:
    lines = [f"// {MADE}", "", 'import type { Tuning } from "./types.js";', ""]
    lines += ["/** What a plan depends on beside the program and the device. */", "export interface Options {"]
    for option in on_the_web(options):
        lines += [f"  /** {option.text} */", f"  {option.camel}?: {option.kind.ts};"]
    return "\n".join([*lines, "}", ""])


def wire_record(options: list[Option]) -> dict[str, str]:
    return {option.name: option.kind.wire for option in on_the_web(options)}


def ts_take(options: list[Option], ts_of: dict[str, str]) -> list[str]:
    """What makes the record of the options that a caller gave. `ts_of`: the types of the record's fields."""
    options = on_the_web(options)
    kinds = {option.type: ts_of[option.name] for option in options}
    lines = ["", "/** Makes a field of what a caller gave, which is undefined where that is nothing. */"]
    lines += ["export interface TakeOption {"]
    lines += [f"  {kind}(given: unknown, mustBe: string): {ts};" for kind, ts in kinds.items()]
    names = " | ".join(quoted(option.camel) for option in options)
    lines += ["}", f"type OptionName = {names};", "export function takeOptions("]
    lines += ["  given: { [name in OptionName]?: unknown },", "  take: TakeOption,", "): Options {"]
    lines.append("  return {")
    for option in options:
        must_be = quoted(f"{option.camel} {option.must_be}")
        lines.append(f"    {option.camel}: take.{option.type}(given.{option.camel}, {must_be}),")
    return [*lines, "  };", "}"]


def write_if_changed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> int:
    options, folder = read(Path(sys.argv[1])), Path(sys.argv[2])
    write_if_changed(folder / "nibble" / "options.hpp", cpp_struct(options))
    write_if_changed(folder / "nibble" / "options.h", c_struct(options))
    write_if_changed(folder / "option_fields.hpp", cpp_fields(options))
    write_if_changed(folder / "_load.py", python_load(options))
    write_if_changed(folder / "option_types.ts", ts_type(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
