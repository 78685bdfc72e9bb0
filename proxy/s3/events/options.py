# SPDX-License-Identifier: Apache-2.0
"""The options of ``[filter:notifications]``, and the targets that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from martlet.conf.options import option

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_LEAST_QUEUE_BYTES = 1024 * 1024


class Target(NamedTuple):
    """A webhook; ``token`` may be empty."""

    name: str
    url: str
    token: str


@dataclass(frozen=True)
class NotificationOptions:
    """``[filter:notifications]``."""

    webhooks: list[str] = option(
        [], "Targets as NAME=URL; the ARN of one is arn:martlet:sqs::NAME:webhook"
    )
    webhook_tokens: list[str] = option(
        [], "Tokens as NAME=TOKEN, sent in the header Authorization: Bearer TOKEN"
    )
    queue_dir: str = option(
        "/var/cache/martlet/notifications", "Directory of the events that are not sent yet"
    )
    queue_bytes_max: int = option(
        268435456, "Most bytes of a target's events on this host; further ones are lost", "bytes"
    )
    timeout: float = option(10.0, "Longest wait for a webhook", "s")
    location: str = option("us-east-1", "The region in records; that of s3api")

    def __post_init__(self) -> None:
        self.targets()
        if self.queue_bytes_max < _LEAST_QUEUE_BYTES:
            raise ValueError(f"queue_bytes_max must be at least {_LEAST_QUEUE_BYTES}")
        if not 0 < self.timeout <= 300:
            raise ValueError("timeout must be above 0 and at most 300")
        if not self.queue_dir.startswith("/"):
            raise ValueError("queue_dir must be an absolute path")

    def targets(self) -> list[Target]:
        """The targets.

        :raises ValueError: an entry is malformed.
        """
        urls = dict(_pairs("webhooks", self.webhooks))
        tokens = dict(_pairs("webhook_tokens", self.webhook_tokens))
        for name, url in urls.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"webhooks: {name} must be of letters, digits, _ and -")
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"webhooks: the URL of {name} must be an http or https URL")
        for name in tokens:
            if name not in urls:
                raise ValueError(f"webhook_tokens: there is no webhook {name}")
        return [Target(name, url, tokens.get(name, "")) for name, url in urls.items()]


def _pairs(option_name: str, entries: Iterable[str]) -> Iterator[tuple[str, str]]:
    seen = set()
    for entry in entries:
        name, is_pair, value = entry.partition("=")
        if not is_pair or not value or name in seen:
            raise ValueError(f"{option_name} must have entries NAME=VALUE, each name once")
        seen.add(name)
        yield name.strip(), value.strip()
