"""The places of the requests that run at the same time."""

from __future__ import annotations

import threading
import time

import pytest

from martlet.wsgi.places import Places


def test_no_more_than_the_places_are_taken_and_all_get_one() -> None:
    places = Places(3)
    taken: list[int] = []
    most = 0
    rounds = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal most, rounds
        for number in range(200):
            with places:
                taken.append(number)
                with lock:
                    most = max(most, len(taken))
                    rounds += 1
                if number % 50 == 0:
                    time.sleep(0.001)
                taken.pop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert rounds == 2000
    assert most == 3
    assert not any(thread.is_alive() for thread in threads)


def test_an_error_gives_the_place_back() -> None:
    places = Places(1)
    for _ in range(2):
        with pytest.raises(ValueError), places:  # noqa: PT011
            raise ValueError
    with places:
        pass
