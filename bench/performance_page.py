"""Makes docs/performance.md of an audit: performance_page.py AUDIT.json > docs/performance.md"""

import json
import sys
from collections import defaultdict

# Memory bandwidth in GB/s, float32 arithmetic in TFLOP/s, and where both are from.
GPUS = [
    ("Phone", "Qualcomm Adreno 740", 64, 3.7, "[both](https://primua.com/adreno-740/)"),
    ("Integrated", "Intel Iris Xe, 96 units", 68, 2.1, "128 bit LPDDR4X at 4.27 Gbit/s; 768 lanes at 1.35 GHz"),
    (
        "Laptop",
        "Apple M1, 8 cores",
        68,
        2.6,
        "128 bit LPDDR4X at 4.27 Gbit/s; "
        "[arithmetic](https://www.macrumors.com/2020/11/10/apple-announces-m1-chip-for-the-mac/)",
    ),
    ("Laptop", "NVIDIA RTX 4060 Laptop", 256, 14.6, "128 bit GDDR6 at 16 Gbit/s; 3072 lanes at 2.37 GHz"),
    ("Desktop", "NVIDIA RTX 4090", 1008, 82.6, "[both](https://waredb.com/processor/nvidia-geforce-rtx-4090)"),
    (
        "Desktop",
        "AMD RX 7900 XTX",
        960,
        61.4,
        "[bandwidth](https://pcspecchart.com/pc_parts/gpu/5), "
        "[arithmetic](https://cputronic.com/gpu/amd-radeon-rx-7900-xtx)",
    ),
]

COLUMNS = ("op", "outputs", "variant", "kernel", "sectors 32/64", "conflicts", "barriers", "B", "MAC", "ops", "threads")
COLUMNS += ("in flight",)

HEAD = """# What kernels do to memory

No GPU is at hand where Nibble is built. So nothing on this page is timed: it is **counted**, and what follows from the
counts is **computed, not measured**. The page is made by

```sh
bench/run audit --json audit.json
.venv/bin/python3 bench/performance_page.py audit.json > docs/performance.md
```

## How it is counted

The audit plans layers of four models, two of them also with bytes for activations, for a discrete GPU with the limits
and features of the adapter at hand, and subgroups of 32 and of 64 threads. It forces every variant that is right for a
node, and runs two workgroups from the middle of each dispatch's grid with a text that writes every access to a storage
or workgroup array to a trace (`tests/support/traced_kernel.hpp`), up to 6000 of each thread. The n-th execution of a
place in the text by each thread of a subgroup is one instruction; where threads went different ways before, that is an
estimate.

- **Sectors**: the 32-byte sectors that instructions touch, in bytes, against the bytes that threads asked for. 1 is
  ideal, less means that threads read the same. Where later instructions use the rest of a sector, a cache may serve
  them, so more than 1 costs cache bandwidth first. The first number is for subgroups of 32 threads, the second of 64.
- **Bank conflicts** of workgroup memory, 32 banks of four bytes, for 32 threads: the rounds of an instruction against
  the fewest that so many words take; the worst instruction counts. One is none.
- **Bytes per output**: sectors that a workgroup touches, each once, times the workgroups.
- **Multiply-adds per output**: by the work that the op states; of products and attention.
- **Operations per output**: operators, accesses and built-in functions of the WGSL that threads execute, an operator on
  a vec4 as one. It is no count of a GPU's instructions.
- **Threads**: of the whole dispatch, and how many of them are in flight on one core: of a core that holds 1024 threads,
  16 workgroups and 64 KiB of workgroup memory. Registers may allow fewer. **Barriers**: of a workgroup.

Goals, of the variants for GPUs of products, attention and gathers: sectors at most 1.1 for what is loaded, 1.3 for
products in tiles; and no bank conflict above two ways in any kernel. What is less than a hundredth of the accesses is
not judged.
**Bold** falls short. Listed is what the tables of variants choose on a discrete GPU; the JSON has all other variants.
"""

ROOFLINE = """
## What the counts allow

Computed, not measured: the time of a call is the larger of two. One is the bytes that it moves from and to memory (each
buffer once at most, if kernels read it again from a cache) by the bandwidth, the other two operations for each
multiply-add by the float32 arithmetic. Launches, caches, bandwidth that cannot be reached and arithmetic that unpacks
weights are left out, so these are bounds that no run will reach. Weights have four bits, with a float32 scale for 32 of
them; the cache is float32. Decode is one token at position 1023, prefill 128 tokens at once.

"""


def cell(array: dict, short: str) -> str:
    if "conflict" in array:
        text = f"{array['name']} {array['conflict']:.0f}"
    else:
        text = f"{array['name']} {array['sectors_32']:.2f}/{array['sectors_64']:.2f}"
    return f"**{text}**" if any(reason.startswith(array["name"] + ":") for reason in short) else text


def number(value: float) -> str:
    return "" if value == 0 else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def counts(rows: list[dict]) -> None:
    seen = set()
    for model, call in dict.fromkeys((row["model"], row["call"]) for row in rows):
        print(f"\n### {model}, {call}\n")
        print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
        for row in rows:
            if (row["model"], row["call"]) != (model, call) or not (row["is_for_gpus"] and row["is_default"]):
                continue
            arrays = row["arrays"]
            sectors = ", ".join(cell(a, row["short"]) for a in arrays if "sectors_32" in a)
            conflicts = ", ".join(cell(a, row["short"]) for a in arrays if "conflict" in a)
            variant = f"{row['choice']}={row['variant']}" if row["choice"] else ""
            per_output = (row[name + "_per_output"] for name in ("bytes", "multiply_adds", "operations"))
            figures = " | ".join(number(value) for value in per_output)
            line = f"| {row['op']} | {row['outputs']} | {variant} | {row['kernel']} | {sectors} | {conflicts} "
            line += f"| {row['barriers'] or ''} | {figures} | {row['threads']} "
            line += f"| {min(row['threads'], row['threads_in_flight'])} |"
            # A node that makes several choices is there once.
            key = (model, call, row["op"], row["outputs"], row["kernel"], sectors, figures)
            if key not in seen:
                print(line)
            seen.add(key)


def totals(rows: list[dict]) -> dict:
    """Of the table's choices: bytes, multiply-adds, dispatches, tokens. A node counts by one choice."""
    nodes: dict = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["is_default"]:
            key = (row["model"], row["call"], row["op"], row["times"], row["outputs"])
            nodes[key][row["choice"]].append(row)
    sums: dict = defaultdict(lambda: [0.0, 0.0, 0, 0])
    for (model, call, *_), by_choice in nodes.items():
        total = sums[model, call]
        for row in max(by_choice.values(), key=lambda some: some[0]["multiply_adds"]):
            total[0] += row["memory_bytes"] * row["times"]
            total[1] += row["multiply_adds"] * row["times"]
            total[2] += row["times"]
            total[3] = row["tokens"]
    return sums


def main() -> None:
    with open(sys.argv[1]) as file:
        audit = json.load(file)
    rows = audit["rows"]
    print(HEAD)
    judged = [row for row in rows if row["is_for_gpus"]]
    short = [row for row in judged if row["short"]]
    chosen = [row for row in short if row["is_default"]]
    print(
        f"Of {len(judged)} dispatches of all variants for GPUs, {len(short)} fall short; {len(chosen)} are chosen ones."
    )
    print("\n## The counts")
    counts(rows)
    print("\nNo node of these models can take:", ", ".join(f"`{name}`" for name in audit["missing"]) + ".")
    print(ROOFLINE.rstrip() + "\n")
    sums = {key: value for key, value in totals(rows).items() if value[3] > 0}
    print("| call | dispatches | MB moved | million multiply-adds |\n|---|---|---|---|")
    for (model, call), (moved, multiplied, dispatches, _) in sums.items():
        print(f"| {model}, {call} | {dispatches} | {moved / 1e6:.0f} | {multiplied / 1e6:.0f} |")
    print("\nTokens per second, computed:\n")
    print("| | GPU | GB/s | TFLOP/s | " + " | ".join(f"{model}, {call}" for model, call in sums) + " | figures |")
    print("|---|---|---|---|" + "---|" * (len(sums) + 1))
    for kind, name, bandwidth, flops, source in GPUS:
        speeds = []
        for moved, multiplied, _, tokens in sums.values():
            by_memory, by_arithmetic = moved / (bandwidth * 1e9), 2 * multiplied / (flops * 1e12)
            bound = "memory" if by_memory > by_arithmetic else "arithmetic"
            speeds.append(f"{tokens / max(by_memory, by_arithmetic):.0f} ({bound})")
        print(f"| {kind} | {name} | {bandwidth} | {flops} | " + " | ".join(speeds) + f" | {source} |")


if __name__ == "__main__":
    main()
