"""Embeds WGSL: embed_wgsl.py OUTPUT_HEADER WGSL_FILE...

Each kernel and module becomes a nibble::Shader in nibble::wgsl. What lines that begin with `//!` mean is told in
src/plan/shader.hpp.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

DIRECTIVE = re.compile(r"//! (\w+): (.+)")
HEAD = """// Made from .wgsl files by scripts/embed_wgsl.py.
#pragma once

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
    return "\n".join(line for line in lines if line) + "\n"


def declare(module: Module) -> list[str]:
    name = module.name
    lines = []
    if module.uses:
        used = ", ".join(f"&{one}" for one in module.uses)
        lines.append(f"inline constexpr const Shader* {name}_uses[] = {{{used}}};")
    if module.slots:
        slots = ", ".join(f'{{"{slot.rstrip("?")}", {str(slot.endswith("?")).lower()}}}' for slot in module.slots)
        lines.append(f"inline constexpr Shader::Slot {name}_slots[] = {{{slots}}};")
    fields = [
        f'.name = "{name}"',
        f'.body = R"wgsl({text(module.body)})wgsl"',
        *([f".uses = {name}_uses"] if module.uses else []),
        *([f".slots = {name}_slots"] if module.slots else []),
        *([f'.expression = "{module.expression}"'] if module.expression else []),
        *([".needs_subgroups = true"] if "subgroups" in module.needs else []),
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
        if unknown := [word for word in module.needs if word != "subgroups"]:
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
