"""Makes what the tests of the pages need: export_page.py [--programs FOLDER] [MODEL...]

build/web/tiny is a language model that chats, as `nibble import` writes one. build/web/search.json has what
nibble.Encoder finds with each MODEL (wordllama, minilm) in the text of the page.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
# As for the page itself.
os.environ.setdefault("NIBBLE_CACHE", str(ROOT / "build" / "cache"))

import nibble  # noqa: E402
from conformance.generate_cases import VOCABULARY  # noqa: E402
from support.tiny_model import make_folder  # noqa: E402

OUT = ROOT / "build" / "web"
QUESTIONS = ["How do I keep my plants alive on holiday?", "a journey by rail", "Planets with rings?"]
# What the page shows of each ranking.
TOP = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, default=ROOT / "build" / "programs")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    shutil.rmtree(OUT / "tiny", ignore_errors=True)
    # No token ends a text: a random model would stop anywhere.
    program = options.programs / "llm_greedy" / "model.pte"
    make_folder(OUT / "tiny", program, VOCABULARY, stop_ids=[])

    lines = (ROOT / "examples" / "lines.txt").read_text(encoding="utf-8").splitlines()
    lines = [line.strip() for line in lines if line.strip()]
    found = {}
    for model in options.models:
        with nibble.Encoder(model) as encoder:
            found[model] = {
                question: [[lines[i], score] for i, score in encoder.search(question, lines, top=TOP)]
                for question in QUESTIONS
            }
    (OUT / "search.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
