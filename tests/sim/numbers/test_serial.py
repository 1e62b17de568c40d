"""One thread of BLAS while any machine runs, and as many as before when none does."""

from __future__ import annotations

from threading import Thread

from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from pyptx.sim.numbers.serial import serial


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_overlapping_runs_leave_the_limit_as_it_was() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = serial(), serial()
        first.__enter__()
        second.__enter__()
        assert threads() == {1}
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == before == {2}


def test_runs_in_many_threads() -> None:
    def run() -> None:
        for _ in range(200):
            with serial():
                pass

    with threadpool_limits(2, user_api="blas"):
        running = [Thread(target=run) for _ in range(4)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert threads() == {2}
