"""Checks what the rooms of src/ may include and call: check_rooms.py BUILD_FOLDER.

The includes are checked twice: by reading the sources, and by asking the compiler, with each room's own flags, which of
the forbidden ones it finds. What the build lets each room see must be what the table in docs/design.md says. A row of
an op must not compile with another number of names than its function has parameters. Nodes' arguments are read and set
by name, WGSL functions are in .wgsl files, and ops do not ask what kind of adapter there is.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import build_web

PURE_ROOMS = ("graph", "plan", "ops", "boundary", "generate")
FORBIDDEN_HEADERS = ("webgpu.h", "wgpu.h", "executorch/runtime/core/error.h")
# What the public API is built on does not know it.
BELOW_API = (*PURE_ROOMS, "program", "gpu")
API_HEADERS = ("nibble/nibble.hpp", "nibble/nibble.h")
FORBIDDEN_INCLUDE = re.compile(
    r'#\s*include\s*[<"](?:\S*/)?(?:webgpu\.h|wgpu\.h|executorch/|torch/|gpu/|executorch\.h)'
)
WEBGPU_INCLUDE = re.compile(r'#\s*include\s*[<"]w(?:eb)?gpu\.h')
# Each of these throws, and nothing of ours may: entry points catch only that there is no memory.
BANNED_CALLS = {
    re.compile(r"\.at\("): "at() throws; test the index and use []",
    re.compile(r"\bsto(?:i|l|ll|ul|ull|f|d|ld)\("): "stoi() and its kin throw; use std::from_chars",
    re.compile(r"\.value\(\)(?! [!=]= nullptr)"): "value() throws; test it and use *",
}
# What is said of a node's arguments by their places, and the files that know these.
BY_PLACE = re.compile(r"\bargs(?:\.(?:front|back)\(|\[\d)|\.args = \{[^}]")
KNOW_PLACES = ("graph/graph.hpp", "graph/signature.cpp")
# Whose include folder shows what a room sees, where that is not nibble_ROOM.
TARGETS = {"cli": "nibble_commands"}
# C++ joins expressions of elementwise ops and calls of them, which depend on a chain; functions are in .wgsl files,
# where words in capitals stand for such (plan/shader.hpp). `fn ` before a signature that a .wgsl file declares is none.
WGSL_ROOMS = ("graph", "plan", "ops", "boundary", "program")
WGSL_FUNCTION = re.compile(r'"[^"]*\bfn [\w{}]+\(')


def ban_texts(room: str, path: str, code: str) -> list[str]:
    """Why a line may not stand in this file of src/."""
    found = []
    if path not in KNOW_PLACES and BY_PLACE.search(code):
        found.append("a node's arguments have names: node[NAME], Node::set(), Rewriter::make()")
    if room in WGSL_ROOMS and WGSL_FUNCTION.search(code):
        found.append("a WGSL function belongs in a .wgsl file")
    if room == "ops" and "AdapterKind" in code:
        found.append("tables of variants tell adapters apart; ops ask DeviceProfile for limits")
    return found


def read_sources(root: Path) -> list[str]:
    """One complaint per forbidden include, banned call or banned text."""
    complaints = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".cpp", ".hpp", ".h"):
            continue
        room = path.relative_to(root / "src").parts[0]
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            where = f"{path.relative_to(root)}:{number}"
            if room in PURE_ROOMS and FORBIDDEN_INCLUDE.search(line):
                complaints.append(f"{where}: the room '{room}' may not include this: {line.strip()}")
            if room != "gpu" and WEBGPU_INCLUDE.search(line):
                complaints.append(f"{where}: only the room 'gpu' includes this: {line.strip()}")
            code = line.split("//")[0]
            complaints += [f"{where}: {why}" for call, why in BANNED_CALLS.items() if call.search(code)]
            inside = str(path.relative_to(root / "src"))
            complaints += [f"{where}: {why}" for why in ban_texts(room, inside, code)]
    return complaints


def room_flags(commands: list[dict], room: str) -> tuple[list[str], str]:
    """The compiler and flags of a room, without input and output."""
    for entry in commands:
        words = shlex.split(entry["command"])
        made = words[words.index("-o") + 1]
        if f"/nibble_{room}.dir/" in made:
            return [word for word in words if word not in ("-c", entry["file"], "-o", made)], entry["directory"]
    raise SystemExit(f"check_rooms: no source of the room '{room}' is in compile_commands.json")


def sees(flags: list[str], folder: str, headers: list[str]) -> set[str]:
    """Which of these headers the compiler would find."""
    lines = [f"#if __has_include(<{header}>)\n{header}\n#endif" for header in headers]
    command = [*flags, "-E", "-P", "-x", "c++", "-"]
    return set(subprocess.check_output(command, cwd=folder, input="\n".join(lines), text=True).split())


def try_includes(root: Path, build: Path) -> list[str]:
    """One complaint per forbidden header that a room's flags find."""
    commands = json.loads((build / "compile_commands.json").read_text())
    gpu = [f"gpu/{path.name}" for path in sorted((root / "src" / "gpu").glob("*.hpp"))]
    complaints = []
    for room in BELOW_API:
        forbidden = [*API_HEADERS, *([*FORBIDDEN_HEADERS, *gpu] if room in PURE_ROOMS else [])]
        # Without these, a room whose flags are broken would pass for the wrong reason.
        needed = ["nibble/types.hpp", "generate/sampler.hpp" if room == "generate" else "graph/graph.hpp"]
        found = sees(*room_flags(commands, room), [*needed, *forbidden])
        complaints += [f"room '{room}': its flags do not find {header}" for header in needed if header not in found]
        complaints += [
            f"room '{room}': its flags find {header}, but must not" for header in forbidden if header in found
        ]
    return complaints


def compiles(flags: list[str], folder: str, text: str) -> bool:
    command = [*flags, "-fsyntax-only", "-x", "c++", "-"]
    return subprocess.run(command, cwd=folder, input=text, text=True, capture_output=True).returncode == 0


# A row of an op's table.
ROW = """#include "plan/lowering.hpp"
namespace nibble {
Status lower(Lowering&, const Tensor&, std::int64_t, Out&) { return {}; }
constexpr Op kOp = op<lower>("op", "NAMES");
}"""


def try_rows(build: Path) -> list[str]:
    """One complaint where a row compiles with more or fewer names than its function has parameters."""
    commands = json.loads((build / "compile_commands.json").read_text())
    flags, folder = room_flags(commands, "ops")
    wanted = {"self, dim -> out": True, "self -> out": False, "self, dim, step -> out": False, "": False}
    return [
        f"a row of an op with 3 parameters {'does not compile' if is_right else 'compiles'} with the names '{names}'"
        for names, is_right in wanted.items()
        if compiles(flags, folder, ROW.replace("NAMES", names)) != is_right
    ]


def documented_rooms(root: Path) -> dict[str, set[str]]:
    """What each room may include, from the table in docs/design.md."""
    rows = re.findall(r"^\| `src/(\w+)/` \|.*\|([^|]*)\|$", (root / "docs" / "design.md").read_text(), re.MULTILINE)
    return {room: set(re.findall(r"[^\s,]+", cell)) for room, cell in rows}


def visible_rooms(root: Path, build: Path) -> dict[str, set[str]]:
    """What the build lets each room include: links in its include folder. A room of no links is no room of CMake's."""
    found: dict[str, set[str]] = {}
    for folder in (path for path in sorted((root / "src").iterdir()) if path.is_dir()):
        view = build / "rooms" / TARGETS.get(folder.name, f"nibble_{folder.name}")
        links = {path.name for path in view.iterdir()} if view.is_dir() else set()
        found[folder.name] = links - {"nibble", folder.name}
    found["web"] = set(build_web.ROOMS) - {"web"}
    found["web_text"] = set(build_web.TEXT_ROOMS) - {"web_text"}
    found["constraint"] = set(build_web.CONSTRAINT_ROOMS) - {"constraint"}
    return found


def compare_rooms(documented: dict[str, set[str]], visible: dict[str, set[str]]) -> list[str]:
    """One complaint per room of which docs/design.md says something else than the build does."""

    def told(rooms: set[str] | None) -> str:
        return "has no row" if rooms is None else f"says {', '.join(sorted(rooms)) or 'nothing'}"

    return [
        f"room '{room}': docs/design.md {told(documented.get(room))}, but the build {told(visible.get(room))}"
        for room in sorted(documented.keys() | visible.keys())
        if documented.get(room) != visible.get(room)
    ]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    build = Path(sys.argv[1])
    complaints = read_sources(root) + try_includes(root, build) + try_rows(build)
    complaints += compare_rooms(documented_rooms(root), visible_rooms(root, build))
    print("\n".join(complaints) or "Every room includes and calls only what it may.")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
