"""Operators that the stock exporter may put into a program and that Nibble does not have yet.

conformance/test_registry.py checks that these are all, and no others.
"""

MISSING: set[str] = set()
