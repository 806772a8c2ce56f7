"""Tables of what bench/run generate measured: generate_page.py FIGURES.json... [--into docs/generate.md] [--note TEXT]

One column for each adapter's file. With --into they replace what is between the two marks there; else they are printed.
"""

import argparse
import json
import sys
from pathlib import Path

BEGIN, END = "<!-- bench/generate_page.py -->", "<!-- end of bench/generate_page.py -->"
PEERS = {"XNNPACK 8da4w": "XNNPACK, 4-bit weights, 8-bit activations", "XNNPACK fp32": "XNNPACK, the weights in fp32"}
MOST_OPS = 6


def rows() -> list[tuple[str, str, str]]:
    """What is said, the figure, and how it is written."""
    found = []
    for after in (32, 512):
        of = f"decode after {after}: "
        found.append((f"decode after {after} tokens, tokens/s", f"{of}whole loop, tokens per second", ".1f"))
        found += [(f"… {said}", f"{of}{peer}, tokens per second", ".1f") for peer, said in PEERS.items()]
        found.append(("… rate of the whole loop / of bare steps", f"{of}bare steps / whole loop, time", ".2f"))
    for count in (1, 32, 128, 512):
        of = f"prompt of {count}: "
        found.append((f"prompt of {count}, tokens/s", f"{of}tokens per second", ".0f"))
        found += [(f"… {said}", f"{of}{peer}, tokens per second", ".0f") for peer, said in PEERS.items()]
        found.append(("… time to first token, ms", f"{of}time to first token, ms", ".0f"))
    found += [
        ("dispatches per token, after 1", "decode after 1: dispatches per token", ".0f"),
        ("dispatches per token, after 512", "decode after 512: dispatches per token", ".0f"),
        ("JSON schema, ms per token", "JSON schema: ms per token", ".2f"),
        ("… of a token at most", "JSON schema: ms of a token at most", ".2f"),
        ("… to read it, with the first mask", "JSON schema: ms to read it, with the first mask", ".1f"),
    ]
    return found


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(runs: list[dict]) -> list[str]:
    lines = [line(["", *(run["device"] for run in runs)]), f"|---{'|---' * len(runs)}|"]
    for said, key, how in rows():
        if any(key in run for run in runs):
            lines.append(line([said, *(format(run[key], how) if key in run else "" for run in runs)]))
    return lines


def profiles(run: dict) -> list[str]:
    """Where the time of a call goes, op by op; nothing where the adapter has no timestamps."""
    if not run["profile"]:
        return [f"{run['device']} has no timestamps."]
    calls = [f"{one['tokens']} at {one['place']}" for one in run["profile"]]
    shares: dict[str, list[str]] = {}
    for place, one in enumerate(run["profile"]):
        whole = sum(op["microseconds"] for op in one["ops"])
        calls[place] += f": {whole / 1e3:.1f} ms"
        for op in one["ops"][:MOST_OPS]:
            name = f"{op['op']}, {op['kernel']}"
            text = f"{op['microseconds'] / whole:.0%} ({op['dispatches']})"
            shares.setdefault(name, [""] * len(calls))[place] = text
    lines = [line([f"{run['device']}: tokens of a call", *calls]), f"|---{'|---' * len(calls)}|"]
    return lines + [line([f"`{name}`", *texts]) for name, texts in shares.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, nargs="+")
    parser.add_argument("--into", type=Path)
    parser.add_argument("--note", default="Nothing else ran on the machine.", help="a sentence about the measurement")
    arguments = parser.parse_args()
    runs = [json.loads(path.read_text()) for path in arguments.figures]
    parts = [[arguments.note], table(runs), *(profiles(run) for run in runs)]
    text = "\n\n".join("\n".join(part) for part in parts)
    if arguments.into is None:
        print(text)
        return 0
    page = arguments.into.read_text()
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        print(f"{arguments.into} has no place for it: {BEGIN} … {END}", file=sys.stderr)
        return 1
    head, rest = page.split(BEGIN)
    arguments.into.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
