"""Metadata: the newest value of each name wins, in whatever order they come."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.conf.constraints import ConstraintError, Constraints
from martlet.http.request import Request
from storage.metadata import (
    REMOVED_MAX,
    Metadata,
    check_total,
    dump_metadata,
    merge_metadata,
    metadata_of_request,
    parse_metadata,
    shown_metadata,
)

STAMP = "1795223541.00001"


def of_request(headers: dict[str, str], target: str = "container") -> Metadata:
    req = Request.blank("/", "POST", headers)
    return metadata_of_request(req.headers, target, {"x-container-read"}, STAMP)


def test_user_and_system_metadata_and_saved_headers_are_taken() -> None:
    headers = {
        "X-Container-Meta-Color": "blue",
        "X-Container-Sysmeta-Secret": "1",
        "X-Container-Read": ".r:*",
        "X-Container-Write": "not named as saved",
        "X-Account-Meta-Other": "of another target",
        "X-Container-Meta-": "no name",
        "Content-Type": "text/plain",
    }
    assert of_request(headers) == {
        "X-Container-Meta-Color": ("blue", STAMP),
        "X-Container-Sysmeta-Secret": ("1", STAMP),
        "X-Container-Read": (".r:*", STAMP),
    }


def test_removal_by_an_empty_value_and_by_header() -> None:
    headers = {
        "X-Container-Meta-A": "",
        "X-Remove-Container-Meta-B": "x",
        "X-Remove-Container-Read": "x",
        "X-Remove-Container-Write": "x",
    }
    assert of_request(headers) == {
        "X-Container-Meta-A": ("", STAMP),
        "X-Container-Meta-B": ("", STAMP),
        "X-Container-Read": ("", STAMP),
    }


def test_values_are_text_and_must_be_utf8() -> None:
    taken = of_request({"X-Container-Meta-Snow": "\u2603".encode().decode("latin-1")})
    assert taken == {"X-Container-Meta-Snow": ("\u2603", STAMP)}
    assert list(shown_metadata(taken)) == [("X-Container-Meta-Snow", "\xe2\x98\x83")]
    with pytest.raises(ConstraintError, match="UTF-8"):
        of_request({"X-Container-Meta-Bad": "\xff"})


def test_removed_values_are_kept_but_not_shown() -> None:
    stored = {"X-Container-Meta-A": ("", STAMP), "X-Container-Meta-B": ("b", STAMP)}
    assert parse_metadata(dump_metadata(stored)) == stored
    assert list(shown_metadata(stored)) == [("X-Container-Meta-B", "b")]
    assert parse_metadata("") == {}


def test_limits_hold_for_old_and_new_together() -> None:
    limits = Constraints(max_meta_count=2)
    two: Metadata = {f"X-Container-Meta-{n}": ("v", STAMP) for n in "ab"}
    check_total({**two, "X-Container-Meta-C": ("", STAMP)}, "container", limits)
    check_total({**two, "X-Container-Sysmeta-C": ("v", STAMP)}, "container", limits)
    with pytest.raises(ConstraintError, match="Too many"):
        check_total({**two, "X-Container-Meta-C": ("v", STAMP)}, "container", limits)


STAMPS = st.integers(0, 3).map(lambda seconds: f"{seconds:016.5f}")
UPDATES = st.dictionaries(
    st.sampled_from("abc"), st.tuples(st.sampled_from(["", "u", "v"]), STAMPS), max_size=3
)


@given(st.lists(UPDATES, max_size=4))
def test_merging_in_any_order_and_again_gives_the_same(updates: list[Metadata]) -> None:
    results = []
    for order in itertools.permutations(updates):
        stored: Metadata = {}
        for update in [*order, *order]:
            stored = merge_metadata(stored, update) or stored
        results.append(stored)
    assert all(result == results[0] for result in results)
    for name, (_, stamp) in results[0].items():
        assert stamp == max(update[name][1] for update in updates if name in update)


def test_an_update_that_changes_nothing_is_told_as_such() -> None:
    stored: Metadata = {"a": ("1", STAMP)}
    assert merge_metadata(stored, {"a": ("0", STAMP)}) is None
    assert merge_metadata(stored, {}) is None


def test_what_no_header_can_hold_is_not_shown() -> None:
    stored: Metadata = {"X-Container-Meta-A": ("a\x01b\r\nX-Evil: 1\tc\x7f", STAMP)}
    assert list(shown_metadata(stored)) == [("X-Container-Meta-A", "a b  X-Evil: 1\tc ")]


def test_removals_of_ever_new_names_do_not_pile_up() -> None:
    """A removal counts for no limit, and each answer reads all that is stored."""
    stored: Metadata = {"X-Container-Meta-Kept": ("v", stamp_of(0))}
    for number in range(10):
        updates = {
            f"X-Container-Meta-{number}-{name}": ("", stamp_of(number)) for name in range(90)
        }
        stored = merge_metadata(stored, updates) or stored
    assert stored["X-Container-Meta-Kept"] == ("v", stamp_of(0))
    removed = {name for name, (value, _) in stored.items() if value == ""}
    assert len(removed) == REMOVED_MAX
    newest = {f"X-Container-Meta-9-{name}" for name in range(90)}
    assert newest < removed  # the oldest went
    assert merge_metadata(stored, {"X-Container-Meta-0-0": ("", stamp_of(0))}) is None


def stamp_of(seconds: int) -> str:
    return f"{1795223500 + seconds}.00000"
