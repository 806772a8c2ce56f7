"""Builds the npm package of web/ into web/dist: build_web.py [--wasm-only].

The planner, the core of text generation and its constraints are compiled to WebAssembly, a module each, by the PyPI
package ziglang and made smaller by wasm-opt; the TypeScript is checked by tsc and bundled by esbuild. Everything in
between lies in build/web, and only what changed is made again.
"""

import argparse
import importlib.util
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from ninja_file import escape, run_ninja

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "web"
WEB = ROOT / "web"
DIST = WEB / "dist"
# By one name whatever the caller used: it is part of the commands that decide what is made again.
PYTHON = Path(sys.prefix) / "bin" / "python3"

# The room `web` is compiled here only. What prints plans for people stays at home.
ROOMS = ("graph", "program", "plan", "ops", "boundary", "web")
# So do files: a browser fetches ranges instead.
LEFT_OUT = ("src/program/file.cpp", "src/plan/print.cpp")
# What together() makes of the files in src/web/tune.
TUNER = "web-few"
# Those of the second module, generate.wasm, and of the third, constraint.wasm.
TEXT_ROOMS = ("generate", "web_text")
CONSTRAINT_ROOMS = ("generate", "constraint")
SCHEMAS = ("backends/vulkan/serialization/schema.fbs", "schema/scalar_type.fbs", "schema/program.fbs")
# What is used of the C++ library beside its headers. Without these lines zig compiles all of it, which takes a minute.
LIBRARY_PARTS = ("functional", "hash", "memory", "new", "new_handler", "new_helpers", "string", "verbose_abort")
COMPILE = "-target wasm32-wasi -std=c++23 -Oz -g0 -flto -fno-exceptions -fno-rtti -Wall -Wextra -Werror -Wshadow"
# Nothing asserts or throws, so nothing has to be printed, which takes printf.
DEFINES = "-DNDEBUG -DFMT_EXCEPTIONS=0 '-DFMT_THROW(x)=__builtin_trap()'"
# With a fixed separator, {fmt} does without std::locale, which is as large as the planner; and no message has long
# doubles or numbers of 128 bits.
SMALL = "-DFMT_STATIC_THOUSANDS_SEPARATOR=44 -DFMT_USE_INT128=0 -DFMT_USE_LONG_DOUBLE=0 -Dsnprintf=nibble_snprintf"
# The compiler's own choice is a stack of 16 MB; nothing here nests deeply.
LINK = "-target wasm32-wasi -Oz -flto -nostdlib++ -mexec-model=reactor -Wl,--gc-sections -Wl,-z,stack-size=1048576 -s"
# What every browser with WebGPU has, and the compiler uses.
FEATURES = ("bulk-memory", "bulk-memory-opt", "multivalue", "mutable-globals", "nontrapping-float-to-int", "sign-ext")
# Those passes that make it smaller when it is zipped. -Oz does so by 0.1 % only: it makes more of its code differ.
SHRINK = ("remove-unused-brs", "precompute", "vacuum", "merge-blocks", "rse", "duplicate-function-elimination", "dce")
SHRINK += ("reorder-locals", "reorder-types", "strip-debug", "strip-producers", "strip-target-features")


def quote(*words: object) -> str:
    return " ".join(shlex.quote(str(word)) for word in words)


def build_line(
    outputs: list[Path], rule: str, inputs: list[Path], implicit=(), order=(), **variables: str
) -> list[str]:
    """One build statement; `implicit` inputs are not in $in, `order` ones only have to be there."""

    def paths(items) -> str:
        return " ".join(escape(str(item)) for item in items)

    line = f"build {paths(outputs)}: {rule} {paths(inputs)}"
    line += f" | {paths(implicit)}" if implicit else ""
    line += f" || {paths(order)}" if order else ""
    return [line, *(f"  {name} = {value}" for name, value in variables.items())]


def system_headers(folder: Path) -> Path:
    """A folder with just the header-only libraries: the rest of /usr/include is for the host."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("fmt", "flatbuffers"):
        if not (folder / name).exists():
            (folder / name).symlink_to(Path("/usr/include") / name)
    return folder


def together(folder: Path, rooms: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Files that include the sources of a folder, or of a room's small ones, as in the native build; and the room."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for room in rooms:
        by_folder: dict[Path, list[Path]] = {}
        for path in sorted((ROOT / "src" / room).rglob("*.cpp")):
            by_folder.setdefault(path.parent.relative_to(ROOT / "src"), []).append(path.relative_to(ROOT))
        parts: dict[str, list[Path]] = {}
        for part, names in by_folder.items():
            parts.setdefault("-".join(part.parts) if len(names) > 3 else f"{room}-few", []).extend(names)
        for part, names in parts.items():
            text = "".join(f'#include "{ROOT / name}"\n' for name in names if str(name) not in LEFT_OUT)
            made.append((room, folder / f"{part}.cpp"))
            if not made[-1][1].exists() or made[-1][1].read_text() != text:
                made[-1][1].write_text(text)
    return made


def view(folder: Path, rooms: tuple[str, ...]) -> Path:
    """An include folder with just these rooms."""
    folder.mkdir(parents=True, exist_ok=True)
    for room in rooms:
        if not (folder / room).exists():
            (folder / room).symlink_to(ROOT / "src" / room)
    return folder


def generated_lines(generated: Path) -> tuple[list[str], list[Path]]:
    """Statements for the headers that are made, and their paths."""
    wheel = Path(next(iter(importlib.util.find_spec("executorch").submodule_search_locations)))
    wire, options = ROOT / "scripts" / "wire.py", ROOT / "scripts" / "options.py"
    described, embed = ROOT / "src" / "options.json", ROOT / "scripts" / "embed_wgsl.py"
    headers = [generated / "wire.hpp", generated / "nibble" / "options.hpp", generated / "option_fields.hpp"]
    lines = build_line(
        [headers[0], generated / "wire.ts"],
        "run",
        [WEB / "wire.json", described],
        [wire, options],
        what=quote(PYTHON, wire, WEB / "wire.json", described, generated),
        restat="1",
    )
    lines += build_line(
        [*headers[1:], generated / "option_types.ts"],
        "run",
        [described],
        [options],
        what=quote(PYTHON, options, described, generated),
        restat="1",
    )
    for schema in (wheel / name for name in SCHEMAS):
        headers.append(generated / f"{schema.stem}_generated.h")
        command = quote("flatc", "--cpp", "--scoped-enums", "-I", schema.parent, "-o", generated, schema)
        lines += build_line([headers[-1]], "run", [schema], what=command)
    for room in ("plan", "ops"):
        kernels = sorted((ROOT / "src" / room).rglob("*.wgsl"))
        headers.append(generated / room / "wgsl.hpp")
        command = quote(PYTHON, embed, headers[-1], *kernels)
        lines += build_line([headers[-1]], "run", kernels, [embed], what=command, restat="1")
    return lines, headers


def library_lines() -> tuple[list[str], list[Path]]:
    """Statements for the used parts of the C++ library, and their objects."""
    package = Path(next(iter(importlib.util.find_spec("ziglang").submodule_search_locations)))
    sources = package / "lib" / "libcxx" / "src"
    flags = f"-DNDEBUG -D_LIBCPP_BUILDING_LIBRARY {quote(f'-I{sources}')}"
    lines, objects = [], []
    for part in LIBRARY_PARTS:
        objects.append(OUTPUT / "objects" / f"library-{part}.o")
        lines += build_line([objects[-1]], "compile", [sources / f"{part}.cpp"], flags=flags)
    return lines, objects


def wasm_lines() -> list[str]:
    generated = OUTPUT / "generated"
    lines, headers = generated_lines(generated)
    system = system_headers(OUTPUT / "include")
    rooms = view(OUTPUT / "rooms", ROOMS)
    includes = ["-isystem", system, "-isystem", generated, f"-I{rooms}", f"-I{ROOT / 'include'}"]
    compiler = f"{quote(PYTHON)} -m ziglang c++"
    lines += [
        "rule compile",
        f"  command = {compiler} {COMPILE} $flags -MD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = $in",
        "rule link",
        f"  command = {compiler} {LINK} $in -o $out",
        "  description = $out",
    ]
    flags = f"{DEFINES} {SMALL} {quote(*includes, '-include', ROOT / 'src' / 'web' / 'format.hpp')}"
    of_library, library = library_lines()
    lines += of_library
    objects, of_tuner = [*library], []
    for room, source in together(OUTPUT / "together", ROOMS):
        made = OUTPUT / "objects" / f"{source.stem}.o"
        room_flags = f"{flags} {quote(f'-I{generated / room}')}"
        lines += build_line([made], "compile", [source], order=headers, flags=room_flags)
        (of_tuner if source.stem == TUNER else objects).append(made)
    # Few pages tune, so the tuner is a module of its own: the planner again, and what a tuner needs of it.
    lines += build_line([OUTPUT / "nibble.wasm"], "link", objects)
    return lines + build_line([OUTPUT / "tune.wasm"], "link", [*objects, *of_tuner]) + text_lines(library)


def text_lines(library: list[Path]) -> list[str]:
    """The modules of text generation. As natively, products and sums are not joined: tokens shall be the same."""
    lines, objects = [], {}
    for name, rooms in (("generate", TEXT_ROOMS), ("constraint", CONSTRAINT_ROOMS)):
        includes = [f"-I{view(OUTPUT / f'{name}_rooms', rooms)}", f"-I{ROOT / 'include'}"]
        flags = f"-DNDEBUG -ffp-contract=off {quote(*includes)}"
        for room, source in together(OUTPUT / "together", rooms):
            if source in objects.get(room, {}):
                continue
            compiled = OUTPUT / "objects" / f"{source.stem}.o"
            objects.setdefault(room, {})[source] = compiled
            lines += build_line([compiled], "compile", [source], flags=flags)
        linked = [compiled for room in rooms for compiled in objects[room].values()] + library
        lines += build_line([OUTPUT / f"{name}.wasm"], "link", linked)
    return lines


def package_lines() -> list[str]:
    generated = [OUTPUT / "generated" / name for name in ("wire.ts", "option_types.ts")]
    sources = [*sorted((WEB / "src").rglob("*.ts")), *generated]
    tools = WEB / "node_modules" / ".bin"
    types = OUTPUT / "types"
    # Declarations are laid out by folders from the root, because the generated part is not in web/src.
    emit = quote(tools / "tsc", "--project", WEB, "--rootDir", ROOT, "--outDir", types)
    emit += " --noEmit false --emitDeclarationOnly --declaration"
    # What the package's users see of it; the rest is between its own files.
    names = ("index", "types", "errors", "trace", "generate", "generate_types")
    public = [types / "web" / "src" / f"{name}.d.ts" for name in names]
    public.append(types / "build" / "web" / "generated" / "option_types.d.ts")
    take = f"mkdir -p {quote(DIST / 'types')} && cp {quote(*public, DIST / 'types')}"
    config = [WEB / "tsconfig.json", WEB / "package-lock.json"]
    lines = build_line(
        [types / "web" / "src" / "index.d.ts"],
        "run",
        sources,
        config,
        what=f"{emit} && {take}",
    )
    # The second entry shares the first one's module, and so its classes, wherever both are loaded from.
    of_core = ("--alias:#nibble=./nibble.js", "--external:./nibble.js")
    # The tuner is loaded by the first one when it is asked for.
    entries = (("index", "nibble", ("--external:./tune.js",)), ("generate", "generate", of_core), ("tune", "tune", ()))
    for entry, out, more in entries:
        bundle = bundle_command(tools, WEB / "src" / f"{entry}.ts", DIST / f"{out}.js", *more)
        lines += build_line([DIST / f"{out}.js"], "run", sources, config, what=bundle)
    options = [f"--enable-{name}" for name in FEATURES] + [f"--{name}" for name in SHRINK]
    for name in ("nibble.wasm", "tune.wasm", "generate.wasm", "constraint.wasm"):
        shrink = quote(node_tool("node"), tools / "wasm-opt", *options, OUTPUT / name, "-o", DIST / name)
        lines += build_line([DIST / name], "run", [OUTPUT / name], config, what=shrink)
    return lines


def bundle_command(tools: Path, entry: Path, out: Path, *more: str) -> str:
    return quote(
        tools / "esbuild",
        entry,
        f"--tsconfig={WEB / 'tsconfig.json'}",
        "--bundle",
        "--format=esm",
        "--target=es2022",
        "--minify",
        "--external:node:*",
        "--sourcemap",
        "--log-level=warning",
        f"--outfile={out}",
        *more,
    )


def node_tool(name: str) -> str:
    """That of .venv, or the system's."""
    own = PYTHON.with_name(name)
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed: install Node 20 or newer")
    return found


def install_node_packages() -> None:
    """What package-lock.json names, unless it is there."""
    stamp = WEB / "node_modules" / ".package-lock.json"
    lock = WEB / "package-lock.json"
    if stamp.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime:
        return
    subprocess.run([node_tool("npm"), "ci", "--prefer-offline", "--no-audit", "--no-fund"], cwd=WEB, check=True)
    stamp.touch()


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds web/dist.")
    parser.add_argument(
        "--wasm-only", action="store_true", help="stop at build/web/nibble.wasm and the generated files"
    )
    arguments = parser.parse_args()
    lines = ["rule run", "  command = $what", "  description = $out", *wasm_lines()]
    if not arguments.wasm_only:
        install_node_packages()
        DIST.mkdir(exist_ok=True)
        lines += package_lines()
    return run_ninja(OUTPUT, lines)


if __name__ == "__main__":
    sys.exit(main())
