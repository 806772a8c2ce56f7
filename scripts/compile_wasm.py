"""Compiles everything up to the plan for wasm32: compile_wasm.py BUILD_FOLDER OUTPUT_FOLDER.

Objects only: nothing is linked. BUILD_FOLDER is a native build, whose include folders and generated headers are used.
"""

import json
import shlex
import sys
from pathlib import Path

from ninja_file import escape, run_ninja

ROOMS = ("graph", "program", "plan", "ops", "boundary")
# Memory mapping is the host's business; a browser reads ranges instead.
NATIVE_ONLY = ("src/program/mapped_file.cpp",)
TARGET = "-target wasm32-wasi -std=c++23 -O1 -g0 -fno-exceptions -Wall -Wextra -Werror"
DEFINES = "-DFMT_HEADER_ONLY -DFMT_EXCEPTIONS=0"


def system_headers(folder: Path) -> Path:
    """A folder with just the header-only libraries: the rest of /usr/include is for the host."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("fmt", "flatbuffers"):
        if not (folder / name).exists():
            (folder / name).symlink_to(Path("/usr/include") / name)
    return folder


def include_flags(command: str, root: Path) -> str:
    """Those include folders of a compile command that are the project's own, generated ones among them."""
    words = [word for word in shlex.split(command) if word != "-isystem"]
    folders = [word.removeprefix("-I") for word in words]
    return " ".join(
        f"-I{shlex.quote(folder)}" for folder in folders if folder.startswith("/") and _is_ours(folder, root)
    )


def _is_ours(folder: str, root: Path) -> bool:
    return Path(folder).is_relative_to(root) and Path(folder).is_dir() and ".venv" not in Path(folder).parts


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    build, output = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    system = shlex.quote(str(system_headers(output / "include")))
    lines = [
        f"compiler = {shlex.quote(sys.executable)} -m ziglang c++ {TARGET} {DEFINES} -isystem {system}",
        "rule compile",
        "  command = $compiler $includes -MD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = $in",
    ]
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if not any(source.is_relative_to(root / "src" / room) for room in ROOMS):
            continue
        name = str(source.relative_to(root))
        if name not in NATIVE_ONLY:
            lines.append(f"build {escape(name.replace('/', '-'))}.o: compile {escape(str(source))}")
            lines.append(f"  includes = {include_flags(entry['command'], root)}")
    return run_ninja(output, lines)


if __name__ == "__main__":
    sys.exit(main())
