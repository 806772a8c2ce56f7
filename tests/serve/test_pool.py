"""Which session a prompt goes to."""

import pytest

from nibble._serve.pool import SessionPool


class Fake:
    """A session that knows its tokens and who it came from."""

    def __init__(self, made: list, tokens=(), parent=None):
        self.made, self.tokens, self.parent, self.is_closed = made, list(tokens), parent, False
        made.append(self)

    def fork(self):
        return Fake(self.made, self.tokens, self)

    def close(self):
        self.is_closed = True


@pytest.fixture
def made():
    return []


def run(pool, prompt, answer=()):
    """A whole request."""
    session = pool.take(prompt)
    session.tokens = [*prompt, *answer]
    pool.give_back(session)
    return session


def test_a_conversation_goes_on_in_its_session(made):
    pool = SessionPool(lambda: Fake(made), 3)
    first = run(pool, [1, 2, 3], [4])
    assert run(pool, [1, 2, 3, 4, 5]) is first
    assert len(made) == 1


def test_another_end_of_a_conversation_is_a_fork_and_both_are_kept(made):
    pool = SessionPool(lambda: Fake(made), 3)
    first = run(pool, [1, 2, 3], [4, 5])
    other = run(pool, [1, 2, 9])
    assert other.parent is first
    assert run(pool, [1, 2, 3, 4, 5, 6]) is first
    assert run(pool, [1, 2, 9, 9]) is other


def test_the_longest_beginning_counts(made):
    pool = SessionPool(lambda: Fake(made), 9)
    run(pool, [1, 2, 7, 7])
    longer = run(pool, [1, 2, 3, 7])
    assert run(pool, [1, 2, 3, 8]).parent is longer


def test_the_session_that_was_not_used_for_the_longest_time_makes_room(made):
    pool = SessionPool(lambda: Fake(made), 3)
    oldest, middle, newest = (run(pool, [n, n]) for n in (1, 2, 3))
    assert run(pool, [4]) is oldest
    forked = run(pool, [3, 9])
    assert (forked.parent, middle.is_closed, newest.is_closed) == (newest, True, False)
    assert pool.idle == 3


def test_the_only_idle_session_is_used_though_it_loses_its_end(made):
    pool = SessionPool(lambda: Fake(made), 1)
    first = run(pool, [1, 2, 3])
    assert run(pool, [1, 9]) is first


def test_a_request_repeated_does_not_fill_the_pool_with_copies(made):
    pool = SessionPool(lambda: Fake(made), 3)
    kept = run(pool, [9, 9])
    for _ in range(5):
        run(pool, [1, 2], [3])
    assert run(pool, [9, 9, 9]) is kept
    assert not kept.is_closed


def test_a_session_that_has_nothing_is_used_before_another_is_made(made):
    pool = SessionPool(lambda: Fake(made), 3)
    first = Fake(made)
    pool.add(first)
    assert run(pool, [1, 2]) is first
    assert run(pool, [5]) is not first
    assert len(made) == 2


def test_there_are_never_more_than_may_be(made):
    pool = SessionPool(lambda: Fake(made), 4)
    used = [pool.take([n]) for n in range(4)]
    assert (pool.in_use, pool.idle) == (4, 0)
    for session in used:
        pool.give_back(session)
    for n in range(20):
        run(pool, [n % 5, n])
    assert sum(not one.is_closed for one in made) == 4
    pool.drop(pool.take([1]))
    assert (pool.in_use, pool.idle) == (0, 3)
    pool.close_idle()
    assert all(one.is_closed for one in made)
