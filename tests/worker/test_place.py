"""Each process knows its rank, its devices, its cores and its part of the batch."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_worker.data import fake_batch
from paceline_worker.place import Place, bind, find_place
from tests.factories.jobs import JOB, job

THREE = job(
    devices=("cuda:2", "cuda:0", "cuda:1"),
    cores=((0, 1), (2, 3), (4, 5)),
    shares=(4, 2, 6),
)


def ranked(rank: int, size: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "HOME": "/root"}


def test_process_without_a_rank_is_alone() -> None:
    assert find_place(JOB, {}) == Place(
        rank=0, size=1, devices=("cpu:0",), cores=(0, 1), threads=2, shares=(6,), first_image=0
    )


def test_process_that_is_alone_has_all_devices_and_all_cores() -> None:
    assert find_place(THREE, ranked(0, 1)) == Place(
        rank=0,
        size=1,
        devices=("cuda:2", "cuda:0", "cuda:1"),
        cores=(0, 1, 2, 3, 4, 5),
        threads=2,  # of one device
        shares=(4, 2, 6),
        first_image=0,
    )


@pytest.mark.parametrize(
    ("rank", "device", "cores", "share", "first_image"),
    [(0, "cuda:2", (0, 1), 4, 0), (1, "cuda:0", (2, 3), 2, 4), (2, "cuda:1", (4, 5), 6, 6)],
)
def test_each_of_several_ranks_has_one_device_and_its_share(
    rank: int, device: str, cores: tuple[int, ...], share: int, first_image: int
) -> None:
    assert find_place(THREE, ranked(rank, 3)) == Place(
        rank=rank, size=3, devices=(device,), cores=cores, threads=2, shares=(share,), first_image=first_image
    )


def test_cores_that_devices_share_are_named_once() -> None:
    crowded = job(devices=("cpu:0", "cpu:1"), cores=((1, 0), (0, 1)), shares=(3, 3))
    assert find_place(crowded, {}).cores == (0, 1)


def test_images_of_a_place_follow_those_of_the_ranks_before_it() -> None:
    places = [find_place(THREE, ranked(rank, 3)) for rank in range(3)]
    assert [place.images for place in places] == [slice(0, 4), slice(4, 6), slice(6, 12)]
    assert [place.local_batch_size for place in places] == [4, 2, 6]
    assert find_place(THREE, {}).images == slice(0, 12)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
@settings(deadline=None)
def test_parts_of_all_ranks_make_up_the_whole_batch(shares: list[int]) -> None:
    size = len(shares)
    work = job(devices=("cpu:0",) * size, cores=((0,),) * size, shares=tuple(shares))
    images, labels = fake_batch(work, find_place(work, {}), index=3)
    parts = [fake_batch(work, find_place(work, ranked(rank, size)), index=3) for rank in range(size)]
    assert images.shape == (sum(shares), 2, 2, 1)
    np.testing.assert_array_equal(np.concatenate([part for part, _ in parts]), images)
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), labels)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_process_stays_on_its_own_cores() -> None:
    (core, *_) = sorted(os.sched_getaffinity(0))
    bound: list[set[int]] = []

    def bind_and_look() -> None:
        bind(find_place(job(cores=((core,),)), {}))
        bound.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=bind_and_look)  # affinity is a thread's own: the tests keep their cores
    thread.start()
    thread.join()
    assert bound == [{core}]
