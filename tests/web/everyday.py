"""Which cases Node runs every day: few, which have every operator with every dtype, some of the others, and all that
are special. Natively all run on the first adapter, and `./test full` runs all everywhere."""

from collections.abc import Iterable

# Of those that show nothing new, one in so many.
EVERY = 6


def kinds_of(entry: dict) -> set[tuple[str, str, str]]:
    """What a case shows: an operator's argument with a dtype. An operator of integers shows itself."""
    kinds = set()
    for op in entry["ops"]:
        kinds.add((op["name"], "", ""))
        kinds |= {(op["name"], argument, dtype) for argument, dtypes in op["dtypes"].items() for dtype in dtypes}
    return kinds


def choose(entries: Iterable[dict]) -> set[str]:
    left = {entry["name"]: kinds_of(entry) for entry in entries if not entry["outside"]}
    chosen = {entry["name"] for entry in entries if entry["outside"] or entry["shardBytes"] or entry["large"]}
    seen = set().union(*(left.pop(name, set()) for name in chosen))
    while left:
        best = max(left, key=lambda name: len(left[name] - seen))
        if left[best] <= seen:
            break
        chosen.add(best)
        seen |= left.pop(best)
    return chosen | set(list(left)[::EVERY])
