"""Whose turn it is, who must wait, and what happens to those that fail or go away. Works here compute nothing."""

import threading

import pytest

import nibble
from nibble._serve.errors import ApiError
from nibble._serve.events import Done, Failed
from nibble._serve.scheduler import Scheduler
from nibble._serve.work import Work

PATIENCE = 120
GONE = ApiError(499, "gone", code="client_gone")


class Place:
    def __init__(self, slots: int):
        self.slots = slots


class Counting(Work):
    """A work of so many steps. Each waits until the test lets it."""

    def __init__(self, place, steps: int, diary: list, name: str = "", fails=None, gate=None):
        self.events: list = []
        super().__init__(self.events.append)
        self._place, self._left, self._diary, self._name = place, steps, diary, name
        self._fails, self._gate = fails, gate
        self.left_sound, self.is_over = None, threading.Event()
        self.fails_to_leave: BaseException | None = None

    @property
    def place(self):
        return self._place

    def step(self) -> bool:
        if self._gate:
            self._gate.wait(PATIENCE)
        self._diary.append(self._name)
        if self._fails:
            raise self._fails
        self._left -= 1
        return self._left == 0

    def leave(self, is_sound):
        self.left_sound = is_sound
        if self.fails_to_leave:
            raise self.fails_to_leave

    def finish(self, error=None):
        super().finish(error)
        self.is_over.set()

    @property
    def error(self):
        assert self.is_over.wait(PATIENCE)
        (event,) = self.events
        return event.error if isinstance(event, Failed) else None if isinstance(event, Done) else event


@pytest.fixture
def place():
    return Place(2)


@pytest.fixture
def make():
    made = []

    def make(queue=8, reopen=lambda: None, has_failed=lambda: False):
        made.append(Scheduler(queue=queue, reopen=reopen, has_failed=has_failed, say=lambda *_, **__: None))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def submit(scheduler, *works):
    tickets = [scheduler.admit(work.place) for work in works]
    for work, ticket in zip(works, tickets, strict=True):
        scheduler.submit(work, ticket)


def test_requests_take_turns_and_a_short_one_does_not_wait_for_a_long_one(make, place):
    scheduler, diary, gate = make(), [], threading.Event()
    works = [Counting(place, count, diary, name, gate=gate) for count, name in ((9, "a"), (2, "b"), (2, "c"))]
    submit(scheduler, *works)
    gate.set()
    assert [work.error for work in works] == [None] * 3
    steady = "".join(diary)
    assert steady.index("b") <= 2
    assert steady.rindex("c") < steady.rindex("a")
    assert "aaa" not in steady[: steady.rindex("c")]
    assert scheduler.steps == 13


def test_who_comes_when_all_places_are_taken_shall_come_again(make, place):
    scheduler, gate = make(queue=1), threading.Event()
    works = [Counting(place, 1, [], gate=gate) for _ in range(3)]
    submit(scheduler, *works)
    with pytest.raises(ApiError) as refused:
        scheduler.admit(place)
    assert (refused.value.status, refused.value.retry_after) == (429, 2)  # three seconds of work, for two at once
    assert "3 requests for the model run or wait" in refused.value.message
    # Another model has places of its own.
    other = Counting(Place(1), 1, [])
    submit(scheduler, other)
    scheduler.admit(other.place).give_back()
    gate.set()
    assert [work.error for work in (*works, other)] == [None] * 4
    scheduler.admit(place).give_back()


def test_a_ticket_is_given_back_once(make, place):
    scheduler = make()
    ticket = scheduler.admit(place)
    assert scheduler.admitted == 1
    ticket.give_back()
    ticket.give_back()
    assert scheduler.admitted == 0


def test_a_cancelled_request_makes_at_most_the_step_that_it_is_in(make, place):
    scheduler, diary, gate = make(), [], threading.Event()
    work = Counting(place, 1000, diary, gate=gate)
    submit(scheduler, work)
    scheduler.cancel(work, GONE)
    gate.set()
    assert work.error is GONE
    assert len(diary) <= 1
    assert scheduler.steps_after_cancel <= 1
    assert work.left_sound


def test_a_request_that_waits_can_be_cancelled(make, place):
    scheduler, gate = make(), threading.Event()
    running = [Counting(place, 1, [], gate=gate) for _ in range(2)]
    waiting = Counting(place, 1, [])
    submit(scheduler, *running, waiting)
    scheduler.cancel(waiting, GONE)
    gate.set()
    assert waiting.error is GONE
    assert waiting.steps == 0


def test_a_request_that_fails_fails_alone(make, place):
    scheduler = make()
    wrong = Counting(place, 1, [], fails=nibble.NibbleError("top_p is 2", "invalid_argument"))
    broken = Counting(place, 1, [], fails=ZeroDivisionError())
    right = Counting(place, 5, [])
    submit(scheduler, wrong, broken, right)
    assert (wrong.error.status, wrong.error.message, wrong.left_sound) == (400, "top_p is 2", True)
    assert (broken.error.status, broken.left_sound) == (500, False)
    assert right.error is None


@pytest.mark.parametrize("code", ["device_lost", "gpu", "out_of_memory"])
def test_after_a_lost_device_those_that_ran_have_an_error_and_those_that_waited_an_answer(make, place, code):
    reopened = []
    scheduler = make(reopen=lambda: reopened.append(1), has_failed=lambda: not reopened)
    gate = threading.Event()
    lost = Counting(place, 3, [], fails=nibble.NibbleError("the device is lost", code), gate=gate)
    beside, later = Counting(place, 3, [], gate=gate), Counting(place, 3, [])
    submit(scheduler, lost, beside, later)
    gate.set()
    assert (lost.error.status, beside.error.status, later.error) == (503, 503, None)
    assert (lost.error.code, beside.left_sound) == ("device_lost", False)
    assert (reopened, scheduler.reopened, scheduler.lost) == ([1], 1, None)


@pytest.mark.parametrize("code", ["device_lost", "gpu"])
def test_a_device_that_has_not_failed_is_not_opened_again_whatever_an_error_is_called(make, place, code):
    scheduler = make()
    failing, beside = Counting(place, 1, [], fails=nibble.NibbleError("it was a call's", code)), Counting(place, 3, [])
    submit(scheduler, failing, beside)
    assert (failing.error.status, failing.error.code, beside.error) == (500, code, None)
    assert (scheduler.lost, scheduler.reopened) == (None, 0)


@pytest.mark.parametrize("failure", [nibble.NibbleError("no adapter", "gpu"), ValueError("no adapter")], ids=repr)
def test_a_device_that_does_not_open_again_is_tried_with_the_next_request(make, failure):
    failures, gate = [failure], threading.Event()

    def reopen():
        if failures:
            raise failures.pop()

    scheduler, narrow = make(reopen=reopen, has_failed=lambda: True), Place(1)
    lost = Counting(narrow, 1, [], fails=nibble.NibbleError("it is lost", "device_lost"), gate=gate)
    second, third = Counting(narrow, 1, []), Counting(narrow, 1, [])
    submit(scheduler, lost, second)
    gate.set()
    assert lost.error.status == 503
    assert "cannot be opened again: no adapter" in second.error.message
    assert scheduler.lost is not None
    submit(scheduler, third)
    assert third.error is None
    assert (scheduler.lost, scheduler.reopened) == (None, 1)


@pytest.mark.parametrize("fails", [None, ZeroDivisionError(), nibble.NibbleError("top_p is 2", "invalid_argument")])
def test_a_work_that_cannot_give_back_what_it_had_has_ended_all_the_same(make, place, fails):
    scheduler = make()
    stuck, right = Counting(place, 1, [], fails=fails), Counting(place, 5, [])
    stuck.fails_to_leave = RuntimeError("it sticks")
    submit(scheduler, stuck, right)
    assert (stuck.error is None) == (fails is None)
    assert right.error is None
    assert scheduler.failure is None


def test_a_thread_that_ends_leaves_nobody_waiting(make):
    class Broken:
        @property
        def slots(self):
            raise KeyError("slots")

    scheduler, gate = make(), threading.Event()
    running, broken = Counting(Place(2), 10**9, [], gate=gate), Counting(Broken(), 1, [])
    tickets = [scheduler.admit(running.place) for _ in range(2)]
    scheduler.submit(running, tickets[0])
    scheduler.submit(broken, tickets[1])
    gate.set()
    assert [work.error.status for work in (running, broken)] == [500, 500]
    with pytest.raises(ApiError, match="must be started again"):
        scheduler.admit(Place(1))
    assert isinstance(scheduler.failure, KeyError)


def test_who_is_just_beginning_is_cancelled_with_all_others(make, place):
    has_begun, gate = threading.Event(), threading.Event()

    class Slow(Counting):
        def begin(self):
            has_begun.set()
            assert gate.wait(PATIENCE)

    scheduler = make()
    slow, next_one = Slow(place, 10**9, []), Counting(place, 10**9, [])
    submit(scheduler, slow, next_one)
    assert has_begun.wait(PATIENCE)
    scheduler.cancel_all(GONE)
    try:
        assert [work.cancelled_for for work in (slow, next_one)] == [GONE, GONE]
    finally:
        gate.set()
        scheduler.cancel(slow, GONE)
        scheduler.cancel(next_one, GONE)
    assert [work.error for work in (slow, next_one)] == [GONE, GONE]


def test_closing_ends_what_runs_and_refuses_what_comes(make, place):
    scheduler = make()
    endless = Counting(place, 10**9, [])
    submit(scheduler, endless)
    scheduler.close()
    assert endless.error.code == "shutting_down"
    with pytest.raises(ApiError, match="shutting down"):
        scheduler.admit(Place(1))
