"""The limits of the API, their defaults, and the checks that enforce them.

The names and defaults are OpenStack Swift's (``[swift-constraints]`` in ``martlet.conf``); the
proxy publishes them in ``/info``. Every check runs before anything is allocated or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from martlet.conf.options import option
from martlet.http.header_names import lower_name
from martlet.words.names import BadNameError, check_text


class ConstraintError(ValueError):
    """A limit was passed; ``str()`` is the sentence for the client, ``status`` the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Constraints:
    """The limits in force."""

    max_file_size: int = option(5 * 1024**3 + 2, "Largest object in one PUT, bytes")
    max_meta_name_length: int = option(128, "Longest metadata name, bytes")
    max_meta_value_length: int = option(256, "Longest metadata value, bytes")
    max_meta_count: int = option(90, "Most metadata items of one account, container or object")
    max_meta_overall_size: int = option(4096, "Names and values of all metadata together, bytes")
    max_header_size: int = option(8192, "Longest header line, bytes")
    max_request_line: int = option(8192, "Longest request line, bytes")
    extra_header_count: int = option(0, "Headers allowed beyond what Swift needs, count")
    max_object_name_length: int = option(1024, "Longest object name, bytes")
    container_listing_limit: int = option(10000, "Most entries in a container listing")
    account_listing_limit: int = option(10000, "Most entries in an account listing")
    max_account_name_length: int = option(256, "Longest account name, bytes")
    max_container_name_length: int = option(256, "Longest container name, bytes")
    valid_api_versions: list[str] = option(["v1", "v1.0"], "API versions accepted in paths")
    auto_create_account_prefix: str = option(
        ".", "Accounts with this prefix are created on first use"
    )

    def as_info(self) -> dict[str, object]:
        """The limits as ``/info`` shows them."""
        shown = asdict(self)
        shown.pop("auto_create_account_prefix")
        shown.pop("valid_api_versions")
        return shown

    @property
    def max_header_count(self) -> int:
        """Most headers in one request: the metadata, and what the protocol itself needs."""
        return int((self.max_meta_count + 32 + self.extra_header_count) * 1.6)

    def check_account_name(self, name: str) -> None:
        """:raises ConstraintError: (400 or 412) not a legal account name."""
        _check_no_slash("Account", name)
        _check_name("Account", name, self._limit_of(name, self.max_account_name_length))

    def check_container_name(self, name: str) -> None:
        """:raises ConstraintError: (400 or 412) not a legal container name."""
        _check_no_slash("Container", name)
        _check_name("Container", name, self._limit_of(name, self.max_container_name_length))

    def check_object_name(self, name: str) -> None:
        """:raises ConstraintError: (400 or 412) not a legal object name."""
        _check_name("Object", name, self.max_object_name_length)

    def _limit_of(self, name: str, limit: int) -> int:
        """The names of system accounts and containers may be twice as long."""
        return 2 * limit if name.startswith(self.auto_create_account_prefix) else limit

    def check_metadata(self, target: str, headers: Iterable[tuple[str, str]]) -> None:
        """Check the metadata of one request against the limits.

        ``target`` is ``account``, ``container`` or ``object``; ``headers`` are (name, WSGI value).

        :raises ConstraintError: (400) naming the item and the limit.
        """
        prefix = f"x-{target}-meta-"
        count = size = 0
        for name, value in headers:
            lowered = lower_name(name)
            if len(value) > self.max_header_size:
                raise ConstraintError(f"Header value too long: {lowered[:128]}")
            if not lowered.startswith(prefix):
                continue
            key = lowered[len(prefix) :]
            if not key:
                raise ConstraintError("Metadata name cannot be empty")
            if len(key) > self.max_meta_name_length:
                raise ConstraintError(f"Metadata name too long: {prefix}{key[:128]}")
            if len(value) > self.max_meta_value_length:
                raise ConstraintError(
                    f"Metadata value longer than {self.max_meta_value_length}: {prefix}{key}"
                )
            if target != "object":  # metadata of an object is bytes, as in OpenStack Swift
                _check_metadata_text(key, value)
            count += 1
            size += len(key) + len(value)
        if count > self.max_meta_count:
            raise ConstraintError(f"Too many metadata items; max {self.max_meta_count}")
        if size > self.max_meta_overall_size:
            raise ConstraintError(f"Total metadata too large; max {self.max_meta_overall_size}")

    def check_metadata_total(self, prefix: str, stored: Mapping[str, str]) -> None:
        """Check stored and new metadata together against the count and size limits.

        :raises ConstraintError: (400) the sum is over a limit.
        """
        items = [(k, v) for k, v in stored.items() if k.lower().startswith(prefix) and v != ""]
        if len(items) > self.max_meta_count:
            raise ConstraintError(f"Too many metadata items; max {self.max_meta_count}")
        size = sum(len(k) - len(prefix) + len(v) for k, v in items)
        if size > self.max_meta_overall_size:
            raise ConstraintError(f"Total metadata too large; max {self.max_meta_overall_size}")


def _check_no_slash(kind: str, name: str) -> None:
    if "/" in name:
        raise ConstraintError(f"{kind} name cannot contain slashes", 412)


def _check_name(kind: str, name: str, limit: int) -> None:
    try:
        check_text(name)
    except BadNameError as error:
        raise ConstraintError(str(error), 412) from None
    length = len(name) if name.isascii() else len(name.encode("utf-8"))
    if length > limit:
        raise ConstraintError(f"{kind} name length of {length} longer than {limit}")


def _check_metadata_text(key: str, value: str) -> None:
    if key.isascii() and value.isascii() and "\x00" not in value:
        return
    for part in (key, value):
        try:
            check_text(part.encode("latin-1").decode("utf-8"))
        except (UnicodeError, BadNameError):
            raise ConstraintError("Metadata must be valid UTF-8") from None
