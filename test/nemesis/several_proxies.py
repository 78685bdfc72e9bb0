"""A view of an account through several proxies, one for each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swift_api import Account, Answer, Body


class SeveralProxies(Account):
    """One user's view. Tokens of one proxy are valid at all. Not for several threads."""

    def __init__(
        self,
        proxies: Sequence[tuple[str, int]],
        user: str,
        key: str,
        choose: Callable[[Sequence[str]], int],
    ) -> None:
        """
        :param choose: returns the number of the proxy for a request about these names.
        """
        host, port = proxies[0]
        super().__init__(port, user, key, host)
        super().close()
        self._choose = choose
        self._views = [
            Account.with_token(port, self.token, self.path, host) for host, port in proxies
        ]

    def call(
        self,
        method: str,
        *names: str,
        headers: dict[str, str] | None = None,
        body: Body = None,
        **query: str | int,
    ) -> Answer:
        view = self._views[self._choose(names) % len(self._views)]
        return view.call(method, *names, headers=headers, body=body, **query)

    def close(self) -> None:
        for view in self._views:
            view.close()
