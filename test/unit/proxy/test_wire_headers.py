"""The same headers in the forms of HTTP and of the grid."""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from martlet.http.backend_client import encode_headers
from martlet.http.headers import Headers
from proxy.wire_headers import WireHeaders

NAMES = st.text("abcXYZ-", min_size=1, max_size=12)
VALUES = st.text(
    st.characters(
        min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f", include_characters="\t"
    ),
    max_size=40,
)


@given(st.dictionaries(NAMES, VALUES, max_size=40), st.dictionaries(NAMES, VALUES, max_size=20))
def test_both_forms_have_the_same_headers(common: dict[str, str], own: dict[str, str]) -> None:
    own = {f"Own-{name}": value for name, value in own.items()}
    headers = WireHeaders(own, WireHeaders(common))
    for _ in range(2):  # the first one is kept
        assert msgpack.unpackb(headers.packed) == {**common, **own}
        assert headers.lines == encode_headers({**common, **own})


def test_names_that_differ_in_case_are_one() -> None:
    merged = Headers({"Etag": "1"})
    merged.update({"ETAG": "2"})
    assert msgpack.unpackb(WireHeaders(merged).packed) == {"Etag": "2"}
