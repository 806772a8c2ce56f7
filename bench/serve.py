"""The server under load: bench/serve.py FOLDER [--rounds N] [--seconds N] [--device SELECTOR] [--json FILE].

FOLDER is what `nibble import` made. One client and eight, in turns, ask for greedy answers by HTTP, one after another,
on four sessions; every answer must be that of a single run. Prints the row of docs/serve.md.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import nibble
from nibble._serve.served import ServedText

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.load import load
from support.serving import Running, wait_for

CLIENTS, SESSIONS, LENGTH = (1, 8), 4, 24
PROMPTS = [f"Tell me about the {thing}." for thing in ("sea", "moon", "bread", "snow")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.device is not None:
        os.environ["NIBBLE_DEVICE"] = arguments.device
    with nibble.LanguageModel(arguments.folder) as model:
        device = f"{model.device.name}, {model.device.info.engine}"
        asked = {prompt: model.generate(prompt, max_tokens=LENGTH).run() for prompt in PROMPTS}
    name, answers = arguments.folder.name, 0
    rates: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    with Running([ServedText(name, str(arguments.folder), SESSIONS)]) as running:
        tokens = running.server.metrics.tokens
        for _ in range(arguments.rounds):
            for clients in CLIENTS:
                before = tokens[name, "generated"]
                report = load(
                    running, asked, clients=clients, seconds=arguments.seconds, aborts=0, model=name, max_tokens=LENGTH
                )
                wait_for(lambda: running.server.scheduler.admitted == 0)  # then all tokens are counted
                if report.wrong:
                    print(f"wrong: {report.wrong[0]}", file=sys.stderr)
                    return 1
                answers += report.complete
                rates[clients].append((tokens[name, "generated"] - before) / report.seconds)
        pause = running.server.metrics.longest_pause
    one, eight = (statistics.median(rates[clients]) for clients in CLIENTS)
    share = statistics.median(many / single for single, many in zip(*rates.values(), strict=True))
    figures = {"device": device, "model": name, "tokens per second of one client": one, "of eight": eight}
    figures |= {"eight over one": share, "answers": answers, "longest pause of the event loop, ms": pause * 1e3}
    print(f"| {name} | {device} | {one:.1f} | {eight:.1f} | {share:.2f} | {answers} | {pause * 1e3:.0f} ms |")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
