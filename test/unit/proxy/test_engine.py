"""The rules of a fan-out, without connections and without a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from proxy.replicas.engine import Attempt, Outcome, ask, collect
from proxy.replicas.quorum import Answer, have_quorum
from proxy.wire_headers import WireHeaders

PATIENCE = 5.0
BEGAN_AT = 100.0


def primary(name: str) -> Any:
    return {"device": name}


def handoff(name: str) -> Any:
    return {"device": name, "handoff_index": 0}


class Script:
    """A transport whose devices do as they are told.

    ``says`` has for each device its answers or events in turn: an Answer, None for a failure,
    "refuses" for one that does not take the request. A device without an entry stays silent. Each
    second brings the events of one device, in the order of sending.
    """

    def __init__(self, says: dict[str, Answer | str | None]) -> None:
        self.says = says
        self.now = BEGAN_AT
        self.pending: list[Attempt] = []
        self.sent: list[tuple[int, WireHeaders, str]] = []
        self.given_up: list[str] = []
        self.times: list[float | None] = []  # the times to give up that were named

    def send(self, index: int, headers: WireHeaders, node: Any) -> bool:
        self.sent.append((index, headers, node["device"]))
        if self.says.get(node["device"]) == "refuses":
            return False
        self.pending.append(Attempt(index, headers, node))
        return True

    def receive(self, give_up_at: float | None) -> Iterable[Attempt] | None:
        self.times.append(give_up_at)
        self.now += 1
        if give_up_at is not None and self.now >= give_up_at:
            return None
        for attempt in self.pending:
            device: Any = attempt.node["device"]
            if device in self.says:
                answer = self.says[device]
                assert not isinstance(answer, str)
                attempt.answer = answer
                self.pending.remove(attempt)
                return [attempt]
        assert give_up_at is not None, "nothing will ever come"
        return ()

    def heard_at(self) -> float:
        return self.now

    def give_up(self) -> Iterable[Attempt]:
        self.given_up += [str(attempt.node["device"]) for attempt in self.pending]
        self.pending = []
        return ()


class Replacing(Script):
    """A transport that lets other devices take what was late."""

    def give_up(self) -> Iterable[Attempt]:
        late = list(self.pending)
        super().give_up()
        return late


HEADERS = [WireHeaders({"X-Index": str(index)}) for index in range(3)]
PRIMARIES = [primary("p0"), primary("p1"), primary("p2")]
HANDOFFS = [handoff("h0"), handoff("h1"), handoff("h2")]


def run(
    transport: Script,
    nodes: Iterable[Any] = (*PRIMARIES, *HANDOFFS),
    decided: Callable[[list[int]], bool] = lambda statuses: have_quorum(statuses, 3),
) -> list[Outcome]:
    return ask(transport, iter(nodes), HEADERS, decided, PATIENCE)


def seen(outcomes: list[Outcome]) -> list[tuple[int, Any, int]]:
    return [(o.index, o.node["device"], o.answer.status) for o in outcomes]


def test_each_request_goes_to_a_device_of_its_own_and_no_hand_off_is_asked() -> None:
    transport = Script({name: Answer(201) for name in ("p0", "p1", "p2")})
    assert seen(run(transport)) == [(0, "p0", 201), (1, "p1", 201), (2, "p2", 201)]
    assert transport.sent == [(0, HEADERS[0], "p0"), (1, HEADERS[1], "p1"), (2, HEADERS[2], "p2")]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (None, [(0, "p0", 201), (2, "p2", 201), (1, "h1", 201)]),
        ("refuses", [(0, "p0", 201), (1, "p2", 201), (2, "h1", 201)]),
    ],
)
def test_a_device_that_fails_is_replaced_by_the_next(
    failure: str | None, expected: list[tuple[int, str, int]]
) -> None:
    transport = Script(
        {"p0": Answer(201), "p1": failure, "p2": Answer(201), "h0": None, "h1": Answer(201)}
    )
    assert seen(run(transport)) == expected
    assert all(headers == HEADERS[index] for index, headers, _ in transport.sent)


def test_when_the_queue_is_empty_there_are_fewer_outcomes() -> None:
    transport = Script({"p0": Answer(201), "p1": None, "p2": "refuses"})
    assert seen(run(transport, PRIMARIES)) == [(0, "p0", 201)]


def test_a_404_of_a_hand_off_that_never_had_the_thing_is_left_out_and_not_replaced() -> None:
    transport = Script({"p0": Answer(204), "p1": Answer(404), "p2": None, "h0": Answer(404)})
    assert seen(run(transport)) == [(0, "p0", 204), (1, "p1", 404)]
    assert [device for _, _, device in transport.sent] == ["p0", "p1", "p2", "h0"]


def test_a_404_of_a_hand_off_that_had_the_thing_counts() -> None:
    gone = Answer(404, {"x-backend-timestamp": "1700000000.00000"})
    transport = Script({"p0": Answer(204), "p1": Answer(204), "p2": None, "h0": gone})
    assert seen(run(transport))[-1] == (2, "h0", 404)


def test_once_decided_the_rest_has_the_time_after_the_quorum_and_is_given_up() -> None:
    transport = Script({"p0": Answer(201), "p1": Answer(201)})
    assert seen(run(transport)) == [(0, "p0", 201), (1, "p1", 201)]
    assert transport.given_up == ["p2"]
    # The quorum was there two seconds after the beginning; a later answer does not move the time.
    give_up_at = BEGAN_AT + 2 + PATIENCE
    assert transport.times[:2] == [None, None]
    assert set(transport.times[2:]) == {give_up_at}
    assert transport.now == give_up_at


def test_a_failure_after_the_quorum_is_replaced_within_the_same_time() -> None:
    transport = Script({"p0": Answer(201), "p1": Answer(201), "p2": None, "h0": Answer(201)})
    assert seen(run(transport))[-1] == (2, "h0", 201)
    assert transport.times[2:] == [BEGAN_AT + 2 + PATIENCE] * 2


def test_without_a_decision_no_time_is_set() -> None:
    transport = Script({"p0": Answer(201), "p1": Answer(404), "p2": Answer(302)})
    assert [status for _, _, status in seen(run(transport))] == [201, 404, 302]
    assert set(transport.times) == {None}


def test_what_is_decided_from_the_beginning_is_given_up_soon() -> None:
    transport = Script({})
    assert run(transport, decided=lambda statuses: True) == []
    assert transport.now == BEGAN_AT + PATIENCE
    assert transport.given_up == ["p0", "p1", "p2"]


def test_late_attempts_that_a_transport_hands_back_go_to_other_devices() -> None:
    transport = Replacing({"p0": Answer(100), "h0": Answer(100), "h1": Answer(100)})
    outcomes = run(transport, decided=lambda statuses: len(statuses) >= 1)
    assert seen(outcomes) == [(0, "p0", 100), (1, "h0", 100), (2, "h1", 100)]
    assert transport.given_up == ["p1", "p2"]
    # The replacements have the whole time again.
    assert transport.times[-1] == BEGAN_AT + 1 + 2 * PATIENCE


def test_late_attempts_end_with_the_queue() -> None:
    transport = Replacing({"p0": Answer(100)})
    outcomes = run(transport, PRIMARIES, lambda statuses: len(statuses) >= 1)
    assert (seen(outcomes), transport.given_up) == ([(0, "p0", 100)], ["p1", "p2"])


def test_collect_takes_what_is_under_way_and_replaces_nothing_without_devices() -> None:
    transport = Script({"p0": Answer(201), "p1": None, "p2": Answer(201)})
    for index, node in enumerate(PRIMARIES):
        transport.send(index, HEADERS[0], node)
    outcomes = collect(transport, iter(()), lambda statuses: have_quorum(statuses, 3), PATIENCE)
    assert seen(outcomes) == [(0, "p0", 201), (2, "p2", 201)]
    assert len(transport.sent) == 3
