"""The tokenizers of the page give the ids that the package `tokenizers` gives."""

import json
import random
import subprocess
from pathlib import Path

import build_page
import pytest
from export_wordllama import wordllama_folder
from tokenizers import Tokenizer

from nibble._encode.models import KNOWN

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]

SCRIPT = """
import { readFileSync } from "node:fs";
const [module, file] = process.argv.slice(2);
const { Tokenizer, parseTokenizer } = await import(module);
const text = readFileSync(file, "utf8");
const tokenizer = Tokenizer?.parse(text);
const encode = parseTokenizer ? parseTokenizer(text) : (text) => tokenizer.encode(text);
const texts = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text, 256))));
"""


def encode_in_node(source: str, file: Path, texts: list[str], folder: Path) -> list[list[int]]:
    """The ids that a module of web/demo gives, of at most 256 tokens each if it cuts."""
    module = folder / "module.mjs"
    bundle = [ROOT / "web/node_modules/.bin/esbuild", ROOT / "web/demo" / source, "--bundle", "--format=esm"]
    subprocess.run([*bundle, "--log-level=warning", f"--outfile={module}"], check=True)
    (folder / "script.mjs").write_text(SCRIPT)
    command = ["node", folder / "script.mjs", module, file]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def known_texts() -> list[str]:
    texts = json.loads((FOLDER / "texts.json").read_text())
    return texts + (ROOT / "examples" / "lines.txt").read_text().splitlines()


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
    texts = known_texts() + random_texts(config["model"]["vocab"], 400)
    found = encode_in_node("tokenizer.ts", tmp_path / "vocabulary.txt", texts, tmp_path)
    tokenizer = Tokenizer.from_file(str(config_file))
    for text, ids in zip(texts, found, strict=True):
        assert ids == tokenizer.encode(text, add_special_tokens=False).ids, repr(text)


def test_tokenizer_of_minilm_agrees_with_the_package(tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text(KNOWN["minilm"].tokenizer_text(), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.enable_truncation(256)
    chance = random.Random(2)
    words = list(json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"])
    texts = known_texts() + [" ".join(chance.choices(words, k=chance.randint(1, 300))) for _ in range(100)]
    texts += ["".join(chance.choices("abEHü \n.=,'-_[]\u4e2d\U00020001", k=40)) for _ in range(100)]
    texts += ["", "[CLS] " + "word " * 300, "word " * 254, "word " * 255]
    for text, ids in zip(texts, encode_in_node("library_tokenizer.ts", file, texts, tmp_path), strict=True):
        assert ids == tokenizer.encode(text).ids, repr(text)


def test_a_tokenizer_of_another_kind_is_refused():
    config_file = wordllama_folder() / "tokenizers" / build_page.TOKENIZER
    config = json.loads(config_file.read_text(encoding="utf-8"))
    merges = config["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]
    config["pre_tokenizer"] = {"type": "Whitespace"}
    with pytest.raises(SystemExit, match="lacks: no splitting into words, merges in the order of pieces"):
        build_page.vocabulary_text(config)
