"""What ran, by suite, for the table at the end."""

from collections import defaultdict

RAN: list[str] = []
PASSED: list[str] = []
MISSING: dict[str, set[str]] = defaultdict(set)
