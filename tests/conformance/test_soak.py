"""What the soak (tests/soak) takes for a leak."""

import pytest

from soak.soak import KEPT, Sample, growth_of

MINUTES, STEP = 5, 10


def samples(leak: float, warm: int = 0, first: int = 90, each: int = 0) -> list[Sample]:
    """A process of 200 MB that leaks so many bytes a second. In its `warm` first lines a pipeline of 5 MB is compiled,
    and `each` after them."""
    made, memory, pipelines = [], 200e6, first
    for line in range(MINUTES * 60 // STEP + 1):
        new = 1 if line < warm else each
        pipelines += new
        memory += leak * STEP + (5e6 * new if pipelines <= KEPT else 0)
        made.append(Sample(line * STEP, int(memory), 6, 2, pipelines))
    return made


@pytest.mark.parametrize("warm", [0, 12, 18])
def test_pipelines_are_no_leak_and_what_comes_besides_is(warm):
    assert growth_of(samples(0, warm), MINUTES * 60) == []
    assert "resident memory grew by" in growth_of(samples(3e5, warm), MINUTES * 60)[0]


def test_everything_counts_when_the_device_keeps_as_many_pipelines_as_it_may():
    assert growth_of(samples(0, first=KEPT, each=3), MINUTES * 60) == []
    assert "resident memory grew by" in growth_of(samples(3e5, first=KEPT, each=3), MINUTES * 60)[0]


def test_where_pipelines_come_all_the_time_nothing_can_be_told():
    assert "soak for longer" in growth_of(samples(0, each=1), MINUTES * 60)[0]
