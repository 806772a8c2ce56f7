"""What commands show while they work."""

import io
import sys
from types import SimpleNamespace

import pytest

from nibble._commands import terminal

pytestmark = pytest.mark.host


class Screen(io.StringIO):
    def __init__(self, is_terminal: bool):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.fixture
def show(monkeypatch):
    """Tells a bar of (seconds, done, total), and gives what it drew each time, and in the end."""

    def show(steps: list[tuple[float, int, int]], is_terminal: bool = True, is_bytes: bool = True) -> list[str]:
        now, screen, drawn = [0.0], Screen(is_terminal), []
        monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: now[0]))
        monkeypatch.setattr(sys, "stderr", screen)

        def drawn_now() -> None:
            drawn.append(screen.getvalue())
            screen.seek(0)
            screen.truncate()

        with terminal.Progress("loading", is_bytes=is_bytes) as tell:
            for seconds, done, total in steps:
                now[0] = seconds
                tell(done, total)
                drawn_now()
        drawn_now()
        return drawn

    return show


def test_a_bar_grows_with_what_is_loaded_and_is_gone_in_the_end(show):
    half, whole = f"{'#' * 16}{' ' * 16}", "#" * 32
    assert show([(0.5, 50_000_000, 100_000_000), (0.7, 100_000_000, 100_000_000)]) == [
        f"\rloading [{half}] 50 of 100 MB\x1b[K",
        f"\rloading [{whole}] 100 of 100 MB\x1b[K",
        "\r\x1b[K",
    ]
    assert show([(1, 3, 4)], is_bytes=False)[0] == f"\rloading [{'#' * 24}{' ' * 8}] 3 of 4\x1b[K"


def test_a_bar_is_not_drawn_too_early_nor_too_often(show):
    drawn = show([(0.4, 1, 9), (0.6, 2, 9), (0.65, 3, 9), (0.71, 4, 9)])
    assert [bool(text) for text in drawn] == [False, True, False, True, True]


def test_nothing_is_drawn_where_nobody_looks_or_for_what_is_quick(show):
    assert show([(9, 1, 2)], is_terminal=False) == ["", ""]
    assert show([(0.1, 0, 0), (0.2, 2, 2)]) == ["", "", ""]
