"""Runs clang-tidy over src/: clang_tidy.py BUILD_FOLDER OUTPUT_FOLDER [MORE_CHECKS].

Ninja does the scheduling: a file is looked at again only if it, a header that it includes or .clang-tidy changed.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

from ninja_file import escape, run_ninja


def dependencies(build: Path) -> dict[str, list[str]]:
    """What ninja recorded about headers: object file to the files it was made of."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, text=True, capture_output=True).stdout
    for line in text.splitlines():
        if line.startswith("    "):
            current.append(line.strip())
        elif ": #deps" in line:
            current = found.setdefault(line.split(": #deps")[0], [])
    return found


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    build, output = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    recorded = dependencies(build)
    # Standard error only counts warnings in system headers.
    more = f"--checks={shlex.quote(sys.argv[3])} " if len(sys.argv) > 3 else ""
    command = f"clang-tidy-19 --quiet {more}-p {shlex.quote(str(build))} $in 2>$out.err && touch $out"
    lines = [f"rule tidy\n  command = {command}\n  description = $in"]
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        # Files that are compiled together are looked at together.
        base = build if source.is_relative_to(build / "src") else root
        if not source.is_relative_to(base / "src"):
            continue
        words = shlex.split(entry["command"])
        # Headers of the system and of wheels change only with their packages.
        headers = {str((build / name).resolve()) for name in recorded.get(words[words.index("-o") + 1], [])}
        folders = (f"{root}/src/", f"{root}/include/", f"{build}/generated/options/")
        ours = sorted(name for name in headers if name.startswith(folders) and name != str(source))
        stamp = str(source.relative_to(base)).replace("/", "-") + ".ok"
        inputs = " ".join(escape(name) for name in [*ours, str(root / ".clang-tidy")])
        lines.append(f"build {escape(stamp)}: tidy {escape(str(source))} | {inputs}")
    return run_ninja(output, lines)


if __name__ == "__main__":
    sys.exit(main())
