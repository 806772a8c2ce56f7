"""Embeds WGSL: embed_wgsl.py OUTPUT_HEADER WGSL_FILE...

Each kernel and module becomes a nibble::Shader in nibble::wgsl. What lines that begin with `//!` mean is told in
src/plan/shader.hpp. A module's `struct Params` becomes a C++ struct of the same layout: that of pad.wgsl is
nibble::wgsl::PadParams. In WGSL it begins with `first_group`, which nibble::Params (src/plan/kernel.hpp) puts before
the bytes of the C++ struct: where a dispatch begins is no matter of ops.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

DIRECTIVE = re.compile(r"//! (\w+): (.+)")
STRUCT = re.compile(r"struct (\w+) \{(.*?)\}", re.DOTALL)
ARRAY = re.compile(r"array<(.+), (\d+)>")
VECTOR = re.compile(r"vec([24])<(\w+)>")
FIRST_GROUP = "first_group: u32,"
# Blanks that tell nothing apart: beside punctuation, and between a word and an operator. Two operators stay apart, as
# they could be read as one: `a - -b`, `vec4<f32> = x`.
BLANKS = re.compile(r" *([(){}\[\],;:]) *|(?<=\w) +(?=[^\w\s@])|(?<=[^\w\s@]) +(?=\w)")
FEATURES = ("subgroups", "f16")
SCALARS = {"u32": "std::uint32_t", "i32": "std::int32_t", "f32": "float"}
HEAD = """// Made from .wgsl files by scripts/embed_wgsl.py.
#pragma once

#include <array>
#include <cstdint>

#include "plan/shader.hpp"

namespace nibble::wgsl {
"""


@dataclass
class Module:
    name: str
    where: str
    body: list[str] = field(default_factory=list)
    uses: list[str] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)
    expression: str = ""
    needs: list[str] = field(default_factory=list)
    proven: bool = False


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def read(path: Path) -> list[Module]:
    """The modules of a file; what stands before the first `module` line is called as the file is."""
    modules = [Module(path.stem, str(path))]
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        directive = DIRECTIVE.fullmatch(line.strip())
        if line.startswith("//!") and directive is None:
            raise SystemExit(f"{path}:{number}: a line that begins with //! says `//! WORD: …`")
        if directive is None:
            modules[-1].body.append(line)
            continue
        word, rest = directive.groups()
        match word:
            case "module":
                modules.append(Module(rest.strip(), f"{path}:{number}"))
            case "uses" | "slots" | "needs":
                getattr(modules[-1], word).extend(words(rest))
            case "proven":
                modules[-1].proven = True
            case "expression":
                modules[-1].expression = f"fn {rest.strip()}"
            case _:
                raise SystemExit(f"{path}:{number}: there is no directive '{word}'")
    return [module for module in modules if any(is_code(line) for line in module.body)]


def is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("//")


def text(body: list[str]) -> str:
    """Without comments and indentation: nobody reads it, and a package carries it."""
    lines = (re.sub(r"\s*//.*", "", line).strip() for line in body)
    joined = "\n".join(line for line in lines if line) + "\n"
    return joined.replace("struct Params {", f"struct Params {{\n{FIRST_GROUP}")


def without_blanks(wgsl: str) -> str:
    """Line by line: those remain, so that a compiler's message still says where."""
    return BLANKS.sub(r"\1", wgsl)


class ParamsWriter:
    """C++ for a module's `struct Params` and the structs that it is made of, each with the layout of a uniform block.
    Gaps are members too, so that equal parameters are equal bytes."""

    def __init__(self, module: Module) -> None:
        self.where = module.where
        self.structs = dict(STRUCT.findall(text(module.body)))
        self.lines: list[str] = []
        if "Params" in self.structs:
            words_of_name = module.name.removesuffix("_params").split("_")
            self.write("Params", "".join(map(str.capitalize, words_of_name)) + "Params")

    def write(self, wgsl: str, cpp: str) -> int:
        """Its size."""
        members, at, skipped = [], 0, 0
        for line in self.structs[wgsl].strip().splitlines():
            if wgsl == "Params" and line == FIRST_GROUP:
                at = skipped = 4
                continue
            member = re.fullmatch(r"(\w+): (.+),", line)
            if member is None:
                raise SystemExit(f"{self.where}: `{line}` of {wgsl} is no line `name: type,`")
            name, kind = member.groups()
            type_name, size, align = self.type_of(kind)
            if gap := -at % align:
                members.append(f"  std::array<std::uint32_t, {gap // 4}> before_{name}{{}};")
            members.append(f"  {type_name} {name}{{}};")
            at += gap + size
        self.lines.extend([f"struct {cpp} {{", *members, "};", f"static_assert(sizeof({cpp}) == {at - skipped});"])
        return at

    def type_of(self, kind: str) -> tuple[str, int, int]:
        """Name, size and alignment."""
        if kind in SCALARS:
            return SCALARS[kind], 4, 4
        if vector := VECTOR.fullmatch(kind):
            lanes = int(vector[1])
            return f"std::array<{SCALARS[vector[2]]}, {lanes}>", 4 * lanes, 4 * lanes
        array = ARRAY.fullmatch(kind)
        if array and (vector := VECTOR.fullmatch(array[1])) and vector[1] == "4":
            count = 4 * int(array[2])
            return f"std::array<{SCALARS[vector[2]]}, {count}>", 4 * count, 16
        if array and (ARRAY.fullmatch(array[1]) or array[1] in self.structs):
            count = int(array[2])
            if array[1] in self.structs:
                element, size = array[1], self.write(array[1], array[1])
            else:
                element, size, _ = self.type_of(array[1])
            return f"std::array<{element}, {count}>", size * count, 16
        raise SystemExit(f"{self.where}: a parameter may not be of type {kind}")


def declare(module: Module) -> list[str]:
    name = module.name
    lines = ParamsWriter(module).lines
    if module.uses:
        used = ", ".join(f"&{one}" for one in module.uses)
        lines.append(f"inline constexpr const Shader* {name}_uses[] = {{{used}}};")
    if module.slots:
        slots = ", ".join(f'{{"{slot.rstrip("?")}", {str(slot.endswith("?")).lower()}}}' for slot in module.slots)
        lines.append(f"inline constexpr Shader::Slot {name}_slots[] = {{{slots}}};")
    fields = [
        f'.name = "{name}"',
        f'.body = R"wgsl({without_blanks(text(module.body))})wgsl"',
        *([f".uses = {name}_uses"] if module.uses else []),
        *([f".slots = {name}_slots"] if module.slots else []),
        *([f'.expression = "{module.expression}"'] if module.expression else []),
        *[f".needs_{feature} = true" for feature in FEATURES if feature in module.needs],
        *([".proven = true"] if module.proven else []),
    ]
    lines.append(f"inline constexpr Shader {name}{{{', '.join(fields)}}};\n")
    return lines


def in_order(modules: dict[str, Module]) -> list[Module]:
    """Each after those that it uses."""
    done: dict[str, Module] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in path:
            raise SystemExit(f"WGSL modules use each other in a circle: {' → '.join((*path, name))}")
        if name not in modules:
            raise SystemExit(f"{modules[path[-1]].where} uses '{name}', which no .wgsl file has")
        for used in modules[name].uses:
            visit(used, (*path, name))
        done[name] = modules[name]

    for name in sorted(modules):
        visit(name, ())
    return list(done.values())


def main() -> int:
    output, *paths = map(Path, sys.argv[1:])
    modules: dict[str, Module] = {}
    for module in (module for path in paths for module in read(path)):
        if module.name in modules:
            raise SystemExit(f"{module.where} and {modules[module.name].where} are both called '{module.name}'")
        if unknown := [word for word in module.needs if word not in FEATURES]:
            raise SystemExit(f"{module.where} needs '{unknown[0]}', which is no feature")
        modules[module.name] = module
    lines = [line for module in in_order(modules) for line in declare(module)]
    made = HEAD + "\n" + "\n".join(lines) + "\n}  // namespace nibble::wgsl\n"
    output.parent.mkdir(parents=True, exist_ok=True)
    if not output.exists() or output.read_text() != made:
        output.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
