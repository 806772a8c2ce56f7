"""Builds the page of web/demo into build/web/demo: static files, to be served from anywhere.

python examples/build_page.py
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from export_wordllama import wordllama_folder

import nibble
from search import program_file

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
PAGE = ROOT / "build" / "web" / "demo"
TOKENIZER = "l2_supercat_tokenizer_config.json"
# What every vocabulary of this kind begins with: three special pieces and the 256 bytes.
FIRST_PIECE = 259
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


def vocabulary_text(config: dict) -> str:
    """The tokenizer's pieces, one per line, by id; web/demo/tokenizer.ts can tell all else from them.

    That holds for tokenizers of one kind only, so everything that it takes for granted is checked here.
    """
    model = config["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    expected = [
        ("byte-pair encoding", model["type"] == "BPE"),
        ("falling back to bytes", model["byte_fallback"] and not model["ignore_merges"] and not model["dropout"]),
        ("no splitting into words", config["pre_tokenizer"] is None),
        ("spaces as pieces", config["normalizer"]["normalizers"] == normalizers()),
        ("three special pieces", [token["content"] for token in config["added_tokens"]] == pieces[:3]),
        ("their names", pieces[:3] == ["<unk>", "<s>", "</s>"]),
        ("all bytes", pieces[3:FIRST_PIECE] == [f"<0x{byte:02X}>" for byte in range(256)]),
        ("ids without gaps", list(map(model["vocab"].get, pieces)) == list(range(len(pieces)))),
        ("no line breaks", not any("\n" in piece for piece in pieces)),
        ("merges in the order of pieces", merges_of(model) == merges_from(pieces)),
    ]
    missing = [what for what, holds in expected if not holds]
    if missing:
        raise SystemExit(f"The page's tokenizer does not fit {TOKENIZER}, which lacks: {', '.join(missing)}.")
    return "\n".join(pieces)


def normalizers() -> list[dict]:
    return [
        {"type": "Prepend", "prepend": SPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    ]


def merges_of(model: dict) -> list[tuple[str, ...]]:
    return [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]


def merges_from(pieces: list[str]) -> list[tuple[str, ...]]:
    """Every way to make a piece of two, by the piece's id (runs of spaces last) and then by the left one's id."""
    ids = {piece: number for number, piece in enumerate(pieces)}
    merges = []
    for piece in sorted(pieces[FIRST_PIECE:], key=lambda piece: (not piece.strip(SPACE), ids[piece])):
        pairs = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        merges += sorted((pair for pair in pairs if pair[0] in ids and pair[1] in ids), key=lambda pair: ids[pair[0]])
    return merges


def write_vocabulary(path: Path) -> None:
    config = json.loads((wordllama_folder() / "tokenizers" / TOKENIZER).read_text(encoding="utf-8"))
    path.write_text(vocabulary_text(config), encoding="utf-8", newline="\n")


def run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command])
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def main() -> None:
    run(sys.executable, ROOT / "scripts" / "build_web.py")
    PAGE.mkdir(parents=True, exist_ok=True)
    tools, demo = WEB / "node_modules" / ".bin", WEB / "demo"
    run(tools / "tsc", "--project", demo)
    run(
        tools / "esbuild",
        demo / "demo.ts",
        f"--tsconfig={demo / 'tsconfig.json'}",
        "--bundle",
        "--format=esm",
        "--target=es2022",
        "--minify",
        "--external:node:*",
        "--loader:.txt=text",
        "--log-level=warning",
        f"--outfile={PAGE / 'demo.js'}",
    )
    write_vocabulary(PAGE / "vocabulary.txt")
    try:
        program = program_file()
    except nibble.NibbleError as error:
        raise SystemExit(f"build_page: {error}") from None
    # With their times: that is what tells a browser's copy from a newer file.
    for file in (demo / "index.html", demo / "style.css", WEB / "dist" / "nibble.wasm", program):
        shutil.copy2(file, PAGE / file.name)
    print(f"The page is in {PAGE.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
