"""Long work leaves threads of a device to requests."""

import pytest

from martlet.service.disk_calls import limits
from storage.long_work import TooMuchWork, long_work


def test_half_of_the_threads_of_a_device_stay_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "threads_per_disk", 4)
    with long_work("/a/d1"), long_work("/a/d1"), long_work("/a/d2"):
        with pytest.raises(TooMuchWork), long_work("/a/d1"):
            pytest.fail("a third one")
        with long_work("/a/d2"):
            pass
    with long_work("/a/d1"):
        pass


def test_a_device_with_one_thread_gets_copies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "threads_per_disk", 1)
    with pytest.raises(ZeroDivisionError), long_work("/a/d1"):
        raise ZeroDivisionError
    with long_work("/a/d1"):
        pass
