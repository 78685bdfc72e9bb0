"""The progress bar: on a terminal only, after a moment, and it leaves no trace."""

import io

from ring.builder import RingBuilder
from ring.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_drawn_after_a_moment_and_goes_away() -> None:
    stream, now = Terminal(), [0.0]
    bar = ProgressBar(stream, "Working", lambda: now[0])
    bar(1, 4)
    assert stream.getvalue() == ""
    now[0] = 2.0
    bar(1, 4)
    assert stream.getvalue() == f"\rWorking [{'#' * 10}{' ' * 30}]  25%"
    bar(2, 4)
    assert stream.getvalue().count("Working") == 1, "not more often than ten times a second"
    bar.close()
    assert stream.getvalue().endswith("\r" + " " * len("Working [] 100%" + " " * 40) + "\r")


def test_nothing_is_drawn_into_a_pipe() -> None:
    stream = io.StringIO()
    bar = ProgressBar(stream, "Working", lambda: 99.0)
    bar(1, 2)
    bar.close()
    assert stream.getvalue() == ""


def test_a_new_ring_tells_how_far_it_is() -> None:
    builder = RingBuilder.create(8, 3, 1)
    for number in range(5):
        builder.add_device(
            {
                "region": 1,
                "zone": number,
                "ip": "10.0.0.1",
                "port": 6200,
                "device": f"d{number}",
                "weight": 1,
            }
        )
    calls: list[tuple[int, int]] = []
    builder.rebalance("1", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (256, 256)
    assert calls == sorted(calls)
