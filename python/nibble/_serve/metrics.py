"""GET /metrics: numbers for Prometheus, in its text form."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Histogram:
    def __init__(self):
        self._counts, self._sum = [0] * (len(SECONDS) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(SECONDS, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterable[str]:
        total = 0
        for bound, count in zip((*SECONDS, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """Counted by the event loop alone."""

    def __init__(self):
        self.requests: Counter[tuple[str, int]] = Counter()
        self.tokens: Counter[tuple[str, str]] = Counter()  # by model and kind
        self.durations, self.first_tokens, self.waits = Histogram(), Histogram(), Histogram()
        self.longest_pause = 0.0

    def text(self, others: Iterable[tuple[str, str, str, float]]) -> str:
        """others: name, what it says, labels, value; those of one name come together. Where the name ends with _total
        it is a counter, which only grows; otherwise a gauge."""
        out: list[str] = []

        def describe(name: str, kind: str, what: str) -> str:
            name = f"nibble_{name}"
            if f"# TYPE {name} {kind}" not in out:
                out.extend([f"# HELP {name} {what}", f"# TYPE {name} {kind}"])
            return name

        name = describe("requests_total", "counter", "Requests that were answered, by path and status.")
        out += [f'{name}{{path="{path}",status="{status}"}} {n}' for (path, status), n in sorted(self.requests.items())]
        name = describe("tokens_total", "counter", "Tokens: of prompts, of those cached, and generated.")
        out += [f'{name}{{model="{model}",kind="{kind}"}} {n}' for (model, kind), n in sorted(self.tokens.items())]
        for histogram, key, what in (
            (self.durations, "request_seconds", "How long requests took, from the first byte to the last."),
            (self.waits, "queue_seconds", "How long requests waited for a session."),
            (self.first_tokens, "first_token_seconds", "From a request to its first text."),
        ):
            out += histogram.lines(describe(key, "histogram", what))
        for key, what, labels, value in others:
            name = describe(key, "counter" if key.endswith("_total") else "gauge", what)
            out.append(f"{name}{labels} {value if isinstance(value, int) else f'{value:.6f}'}")
        return "\n".join(out) + "\n"
