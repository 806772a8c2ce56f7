"""What docs/models.md is made of. Apart from the tests, which pytest imports by a name of its own."""

ROWS: list[dict] = []
