"""A thread makes batches ahead; nothing is lost, failures arrive, and it ends when it is told to."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from paceline_worker.input.prefetch import Prefetch

PATIENCE = 10  # seconds after which something that should have happened has not


def test_items_come_in_order_and_all_of_them() -> None:
    with Prefetch(range(100), depth=2) as ahead:
        assert list(ahead) == list(range(100))


def test_source_is_prepared_before_anyone_can_wait_for_it() -> None:
    prepared_by: list[int] = []

    class Source:
        def __iter__(self) -> Iterator[int]:
            prepared_by.append(threading.get_ident())
            return iter(range(2))

    with Prefetch(Source()) as ahead:
        assert prepared_by == [threading.get_ident()]
        assert list(ahead) == [0, 1]


def test_source_runs_ahead_by_the_depth_and_no_further() -> None:
    made: list[int] = []
    third = threading.Event()

    def source() -> Iterator[int]:
        for number in itertools.count():
            made.append(number)
            if number == 3:
                third.set()
            yield number

    with Prefetch(source(), depth=3) as ahead:
        assert third.wait(PATIENCE)  # three are ready, the fourth is made and waits for room
        time.sleep(0.05)
        assert made == [0, 1, 2, 3]
        assert next(ahead) == 0
    assert len(made) <= 5


def test_consumer_knows_how_long_it_waited() -> None:
    def slow() -> Iterator[int]:
        for number in range(3):
            time.sleep(0.05)
            yield number

    with Prefetch(slow()) as ahead:
        assert list(ahead) == [0, 1, 2]
    assert ahead.waits >= 3
    assert 0.1 < ahead.waited_seconds < PATIENCE


def test_items_that_are_ready_cost_no_wait() -> None:
    full = threading.Event()

    def source() -> Iterator[int]:
        yield from range(3)
        full.set()

    with Prefetch(source(), depth=4) as ahead:
        assert full.wait(PATIENCE)
        assert [next(ahead) for _ in range(3)] == [0, 1, 2]
        assert (ahead.waits, ahead.waited_seconds) == (0, 0.0)


def test_failure_of_the_source_is_raised_after_the_items_before_it() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    with Prefetch(source()) as ahead:
        assert next(ahead) == 1
        for _ in range(2):  # and again, for one who asks again
            with pytest.raises(OSError, match="the disk is gone"):
                next(ahead)


def test_closing_ends_a_thread_that_waits_for_room() -> None:
    before = threading.active_count()
    ahead = Prefetch(itertools.count())
    assert next(ahead) == 0
    ahead.close()
    ahead.close()  # twice does no harm
    assert threading.active_count() == before
    assert list(ahead) == []


def test_item_is_the_very_object_that_was_made() -> None:
    made = [object() for _ in range(5)]
    with Prefetch(made) as ahead:
        assert all(item is original for item, original in zip(ahead, made, strict=True))
