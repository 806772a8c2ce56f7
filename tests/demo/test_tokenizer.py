"""The tokenizer of the page (web/demo/tokenizer.ts) gives the ids that the package `tokenizers` gives."""

import json
import random
import subprocess
from pathlib import Path

import build_page
import pytest
from export_wordllama import wordllama_folder
from tokenizers import Tokenizer

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]

SCRIPT = """
import { readFileSync } from "node:fs";
const [module, vocabulary] = process.argv.slice(2);
const { Tokenizer } = await import(module);
const tokenizer = Tokenizer.parse(readFileSync(vocabulary, "utf8"));
const texts = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => tokenizer.encode(text))));
"""


def random_texts(vocabulary: dict[str, int], count: int) -> list[str]:
    """Joined pieces, which is where merges compete, and characters from all over Unicode."""
    chance = random.Random(1)
    pieces = [piece for piece, number in vocabulary.items() if number >= build_page.FIRST_PIECE]
    texts = []
    for _ in range(count):
        if chance.random() < 0.6:
            text = "".join(chance.choices(pieces, k=chance.randint(1, 30)))
            texts.append(text.replace(build_page.SPACE, " "))
        elif chance.random() < 0.5:
            texts.append("".join(chance.choices("abe hit\n.=", k=chance.randint(1, 60))))
        else:
            points = [chance.randrange(1, 0x30000) for _ in range(chance.randint(1, 20))]
            texts.append("".join(chr(point) for point in points if not 0xD800 <= point < 0xE000))
    return texts


def test_tokenizer_agrees_with_the_package(tmp_path):
    config_file = wordllama_folder() / "tokenizers" / build_page.TOKENIZER
    config = json.loads(config_file.read_text(encoding="utf-8"))
    build_page.write_vocabulary(tmp_path / "vocabulary.txt")
    esbuild = ROOT / "web" / "node_modules" / ".bin" / "esbuild"
    module = tmp_path / "tokenizer.mjs"
    command = [esbuild, ROOT / "web/demo/tokenizer.ts", "--format=esm", "--log-level=warning", f"--outfile={module}"]
    subprocess.run(command, check=True)
    (tmp_path / "script.mjs").write_text(SCRIPT)

    texts = json.loads((FOLDER / "texts.json").read_text())
    texts += (ROOT / "examples" / "lines.txt").read_text().splitlines()
    texts += random_texts(config["model"]["vocab"], 400)
    command = ["node", tmp_path / "script.mjs", module, tmp_path / "vocabulary.txt"]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)

    tokenizer = Tokenizer.from_file(str(config_file))
    for text, ids in zip(texts, json.loads(done.stdout), strict=True):
        assert ids == tokenizer.encode(text, add_special_tokens=False).ids, repr(text)


def test_a_tokenizer_of_another_kind_is_refused():
    config_file = wordllama_folder() / "tokenizers" / build_page.TOKENIZER
    config = json.loads(config_file.read_text(encoding="utf-8"))
    merges = config["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]
    config["pre_tokenizer"] = {"type": "Whitespace"}
    with pytest.raises(SystemExit, match="lacks: no splitting into words, merges in the order of pieces"):
        build_page.vocabulary_text(config)
