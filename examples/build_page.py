"""Builds the pages of web/demo, into build/web/demo unless told otherwise: static files, to be served from anywhere.

python examples/build_page.py                  # search by meaning, with wordllama
python examples/build_page.py --model minilm   # the same, and with MiniLM
python examples/build_page.py --chat           # and a chat, with build/smollm2 or what else nibble import made
python examples/build_page.py --classify       # and what is in a picture

Pages and models that an earlier call built stay there, and all pages link to each other.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from export_wordllama import wordllama_folder

import nibble
from nibble._encode.kept import PROGRAM, folder_of
from nibble._encode.models import KNOWN

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
DEFAULT_OUT = ROOT / "build" / "web" / "demo"
CHAT_MODEL = ROOT / "build" / "smollm2"
TOKENIZER = "l2_supercat_tokenizer_config.json"
# What every vocabulary of this kind begins with: three special pieces and the 256 bytes.
FIRST_PIECE = 259
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
# Each page with its title, and a file that it cannot do without.
PAGES = {
    "index.html": ("Search", "wordllama/model.pte"),
    "chat.html": ("Chat", "chat/generation.json"),
    "classify.html": ("Pictures", "labels.txt"),
}
SCRIPTS = ("demo", "chat", "classify", "offline")
MODELS = {"wordllama": "a table of tokens", "minilm": "a transformer"}


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


def bundle(out: Path) -> None:
    """All scripts, also of pages whose models are not there: an older script would not fit the new planner."""
    demo, tools = WEB / "demo", WEB / "node_modules" / ".bin"
    run(tools / "tsc", "--project", demo)
    run(
        tools / "esbuild",
        *(demo / f"{name}.ts" for name in SCRIPTS),
        f"--tsconfig={demo / 'tsconfig.json'}",
        "--bundle",
        "--format=esm",
        "--target=es2022",
        "--minify",
        "--external:node:*",
        "--loader:.txt=text",
        "--log-level=warning",
        f"--outdir={out}",
    )


def place(file: Path, to: Path) -> None:
    """Puts a file there, with its time: that is what tells a browser's copy from a newer file."""
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    if file.suffix == ".pte":  # large, and never changed in place: one copy will do, where the disk allows it
        with contextlib.suppress(OSError):
            os.link(file.resolve(), to)
            return
    shutil.copy2(file, to)


def place_encoder(name: str, folder: Path) -> None:
    # What is made from this repository stays in it.
    os.environ.setdefault("NIBBLE_CACHE", str(ROOT / "build" / "cache"))
    made = folder_of(name, "4-bit")
    place(made / PROGRAM, folder / "model.pte")
    if name == "wordllama":
        write_vocabulary(folder / "vocabulary.txt")
    else:
        place(made / "tokenizer.json", folder / "tokenizer.json")


def place_chat(model: Path, folder: Path) -> None:
    for name in ("model.pte", "tokenizer.json", "generation.json"):
        if not (model / name).exists():
            raise nibble.NibbleError(f"'{model}' has no {name}: it is not what nibble import writes", "io")
        place(model / name, folder / name)


def place_classify(out: Path) -> None:
    # Only this page needs their packages.
    from classify import exported
    from export_efficientnet import samples

    for file in (*(exported() / name for name in ("fp32.pte", "int8.pte", "labels.txt")), *samples()):
        place(file, out / file.name)


def write_pages(out: Path) -> None:
    """Those whose files are there, with links to each other, and the models to choose from."""
    there = {name: title for name, (title, needed) in PAGES.items() if (out / needed).exists()}
    models = ""
    for name, kind in MODELS.items():
        if (program := out / name / "model.pte").exists():
            models += f'<option value="{name}">{name}: {kind}, {program.stat().st_size / 1e6:.0f} MB</option>'
    for page in there:
        links = [
            f'<a href="{name}"{" aria-current=page" * (name == page)}>{title}</a>' for name, title in there.items()
        ]
        pages = f'<nav aria-label="Pages">{"".join(links)}</nav>' if len(links) > 1 else ""
        text = (WEB / "demo" / page).read_text(encoding="utf-8")
        text = text.replace("<!-- pages -->", pages).replace("<!-- models -->", models)
        (out / page).write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(KNOWN), default="wordllama", help="search with this one as well")
    parser.add_argument(
        "--chat", nargs="?", type=Path, const=CHAT_MODEL, metavar="FOLDER", help="the page that chats, with this model"
    )
    parser.add_argument("--classify", action="store_true", help="the page that says what is in a picture")
    parser.add_argument("--into", type=Path, default=DEFAULT_OUT, metavar="FOLDER", help="default: build/web/demo")
    options = parser.parse_args()
    out = options.into.absolute()
    run(sys.executable, ROOT / "scripts" / "build_web.py")
    out.mkdir(parents=True, exist_ok=True)
    bundle(out)
    try:
        for name in {"wordllama", options.model}:
            place_encoder(name, out / name)
        if options.chat:
            place_chat(options.chat, out / "chat")
        if options.classify:
            place_classify(out)
    except nibble.NibbleError as error:
        raise SystemExit(f"build_page: {error}") from None
    modules = [WEB / "dist" / f"{name}.wasm" for name in ("nibble", "generate", "constraint")]
    for file in (WEB / "demo" / "style.css", *modules):
        place(file, out / file.name)
    write_pages(out)
    print(f"The pages are in {os.path.relpath(out)}.")


if __name__ == "__main__":
    main()
