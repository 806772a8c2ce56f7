"""Builds a page of web/demo: static files, to be served from anywhere.

python examples/build_page.py               # search by meaning, into build/web/demo
python examples/build_page.py --classify    # what is in a picture, into build/web/classify
"""

import argparse
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
PAGES = ROOT / "build" / "web"
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


def bundle(name: str, page: Path) -> None:
    demo, tools = WEB / "demo", WEB / "node_modules" / ".bin"
    run(tools / "tsc", "--project", demo)
    run(
        tools / "esbuild",
        demo / f"{name}.ts",
        f"--tsconfig={demo / 'tsconfig.json'}",
        "--bundle",
        "--format=esm",
        "--target=es2022",
        "--minify",
        "--external:node:*",
        "--loader:.txt=text",
        "--log-level=warning",
        f"--outfile={page / name}.js",
    )


def search_files(page: Path) -> dict[str, Path]:
    write_vocabulary(page / "vocabulary.txt")
    program = program_file()
    return {"index.html": WEB / "demo" / "index.html", program.name: program}


def classify_files(page: Path) -> dict[str, Path]:
    # Only this page needs their packages.
    from classify import exported
    from export_efficientnet import samples

    made = exported()
    files = {name: made / name for name in ("fp32.pte", "int8.pte", "labels.txt")}
    return files | {"index.html": WEB / "demo" / "classify.html"} | {path.name: path for path in samples()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classify", action="store_true", help="the page that says what is in a picture")
    is_classify = parser.parse_args().classify
    name, files_of = ("classify", classify_files) if is_classify else ("demo", search_files)
    page = PAGES / name
    run(sys.executable, ROOT / "scripts" / "build_web.py")
    page.mkdir(parents=True, exist_ok=True)
    bundle(name, page)
    try:
        files = files_of(page)
    except nibble.NibbleError as error:
        raise SystemExit(f"build_page: {error}") from None
    files |= {"style.css": WEB / "demo" / "style.css", "nibble.wasm": WEB / "dist" / "nibble.wasm"}
    # With their times: that is what tells a browser's copy from a newer file.
    for file_name, file in files.items():
        shutil.copy2(file, page / file_name)
    print(f"The page is in {page.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
