"""Many clients on few sessions: every answer is that of a single run, and nothing is left behind."""

import pytest

import nibble
from nibble._serve.served import ServedText
from support.load import load
from support.resident import resident_bytes
from support.serving import Running, wait_for


@pytest.fixture(scope="module")
def asked(folder) -> dict[str, str]:
    """Prompts that begin alike, or not, and their answers one at a time."""
    beginnings = ("Tell me of the sea, the ships on it and the fish in it: ", "Once upon a time ", "")
    prompts = [f"{begin}{number} {'so ' * (number * 7)}" for begin in beginnings for number in range(6)]
    with nibble.LanguageModel(folder) as model:
        return {prompt: model.generate(prompt, max_tokens=40).run() for prompt in prompts}


def settled(running: Running) -> None:
    scheduler = running.server.scheduler
    wait_for(lambda: scheduler.running == scheduler.waiting == scheduler.admitted == 0)
    assert running.text().pool.in_use == 0


@pytest.mark.parametrize(
    ("clients", "seconds"), [(12, 0), pytest.param(64, 120, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_answers_are_right_and_nothing_leaks(folder, asked, clients, seconds, capsys):
    with Running([ServedText("tiny", str(folder), 4)]) as running:
        # Buffers for so many at once are made and kept.
        load(running, asked, clients=clients, requests=2, seconds=seconds / 4)
        settled(running)
        device, memory = running.server.serving.device, resident_bytes()
        objects = device.live_objects
        report = load(running, asked, clients=clients, requests=2, seconds=seconds)
        settled(running)
        with capsys.disabled():
            print(
                f"\n{clients} clients, {report.seconds:.0f} s: {report.complete} answers, {report.aborted} left early, "
                f"{running.server.metrics.longest_pause * 1e3:.0f} ms the event loop's longest pause"
            )
        assert not report.wrong, report.wrong[:3]
        assert min(report.complete, report.aborted) > 0
        assert running.text().pool.idle <= running.text().pool.most == 8
        assert running.server.scheduler.steps_after_cancel <= 1
        # A session makes a few for a shape that is new to it.
        assert device.live_objects <= objects + running.text().pool.most
        # The log, of which a letter has four bytes, is there; the rest levels.
        assert resident_bytes() <= 1.05 * memory + 4 * len(running.lines.getvalue())


@pytest.mark.slow
def test_throughput_of_eight_clients_over_one_is_stated(folder, asked, capsys):
    with Running([ServedText("tiny", str(folder), 4)]) as running:
        rates = []
        for clients in (1, 8, 1, 8):
            report = load(running, asked, clients=clients, seconds=10, aborts=0)
            assert not report.wrong
            rates.append(report.tokens / report.seconds)
        with capsys.disabled():
            print(f"\nthroughput with 8 clients over that of one: {(rates[1] + rates[3]) / (rates[0] + rates[2]):.2f}")
