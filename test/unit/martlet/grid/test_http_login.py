"""The login on plain HTTP connections: both sides without I/O, and the golden file."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from martlet.grid.http_login import (
    KEY,
    KEYS,
    NONCE,
    PROOF,
    ClientLogin,
    Logins,
    ProofError,
    ServerLogin,
)
from martlet.grid.plain_http import PlainHttp
from martlet.grid.secrets import Secrets, http_client_proof, http_server_proof
from martlet.http.backend_login import LoginError

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "grid" / "http_login.json"
NEW = "the new secret of the cluster, which is long"
OLD = "the old secret of the cluster, which is long"
ADDRESS = ("10.0.0.7", 6200)


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def headers_of(request: bytes) -> dict[str, str]:
    """The headers of a client's request, with lower-case names."""
    line, *rest = request.decode().removesuffix("\r\n\r\n").split("\r\n")
    assert line == "GET /grid/login HTTP/1.1"
    return lowered(dict(re.split(": ?", text, maxsplit=1) for text in rest))


def client_of(secrets: Secrets, nonce: bytes = b"") -> ClientLogin:
    return ClientLogin(secrets, ADDRESS, nonce)


def log_in(client: ClientLogin, server: ServerLogin) -> None:
    assert headers_of(client.start()) == {"host": "10.0.0.7:6200"}
    proof = client.answer(200, lowered(server.challenge()))
    assert client.answer(200, lowered(server.check(headers_of(proof)))) == b""


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text("utf-8")))
def test_golden(case: dict[str, Any]) -> None:
    key = case["secret"].encode()
    nonces = [bytes.fromhex(case[name]) for name in ("server_nonce", "client_nonce")]
    assert http_client_proof(key, *nonces).hex() == case["client_proof"]
    assert http_server_proof(key, *nonces).hex() == case["server_proof"]
    client, server = client_of(Secrets((key,)), nonces[1]), ServerLogin(Secrets((key,)))
    challenge = server.challenge(nonces[0])
    assert challenge == {NONCE: b64encode(nonces[0]).decode(), KEYS: case["key_id"]}
    sent = headers_of(client.answer(200, lowered(challenge)))
    assert sent[KEY.lower()] == case["key_id"]
    assert b64decode(sent[NONCE.lower()]) == nonces[1]
    assert b64decode(sent[PROOF.lower()]).hex() == case["client_proof"]
    answer = server.check(sent)
    assert b64decode(answer[PROOF]).hex() == case["server_proof"]


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (Secrets.parse(NEW), Secrets.parse(NEW)),
        (Secrets.parse(NEW, OLD), Secrets.parse(OLD)),
        (Secrets.parse(OLD), Secrets.parse(NEW, OLD)),
        (Secrets.parse(NEW, OLD), Secrets.parse(OLD, NEW)),
    ],
)
def test_both_sides_prove_that_they_know_a_secret(client: Secrets, server: Secrets) -> None:
    side = ServerLogin(server)
    assert not side.is_proved
    log_in(client_of(client), side)
    assert side.is_proved


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        (Secrets(), "it has no grid_secret, but this side has one"),
        (Secrets.parse(OLD), "its grid_secret is another one"),
    ],
)
def test_a_server_without_the_secret(server: Secrets, sentence: str) -> None:
    client = client_of(Secrets.parse(NEW))
    with pytest.raises(LoginError, match=sentence):
        client.answer(200, lowered(ServerLogin(server).challenge()))


class TestTheClientRefuses:
    def refused(self, *answers: tuple[int, dict[str, str]]) -> str:
        """Give the sentence with which the client refuses the last answer."""
        client = client_of(Secrets.parse(NEW))
        *before, (status, headers) = answers
        for good in before:
            client.answer(good[0], lowered(good[1]))
        with pytest.raises(LoginError) as caught:
            client.answer(status, lowered(headers))
        return str(caught.value)

    def challenge(self) -> tuple[int, dict[str, str]]:
        return 200, ServerLogin(Secrets.parse(NEW)).challenge()

    @pytest.mark.parametrize("status", [400, 404, 403, 503, 204])
    def test_a_server_that_knows_no_login(self, status: int) -> None:
        assert f"it answers {status} to GET /grid/login" in self.refused((status, {}))
        assert f"it answers {status}" in self.refused(self.challenge(), (status, {}))

    @pytest.mark.parametrize("nonce", ["", "AAAA", "!" * 44, "ü" * 44])
    def test_a_malformed_nonce(self, nonce: str) -> None:
        headers = {**self.challenge()[1], NONCE: nonce}
        assert "X-Grid-Nonce is not 32 bytes" in self.refused((200, headers))

    def test_a_server_that_only_repeats(self) -> None:
        client = client_of(Secrets.parse(NEW))
        proof = client.answer(200, lowered(self.challenge()[1]))
        with pytest.raises(LoginError, match="its proof of the secret is wrong"):
            client.answer(200, headers_of(proof))

    def test_no_proof(self) -> None:
        assert "X-Grid-Proof is not 32 bytes" in self.refused(self.challenge(), (200, {}))


class TestTheServerRefuses:
    def proof(self, server: ServerLogin, secret: str = NEW) -> dict[str, str]:
        return headers_of(client_of(Secrets.parse(secret)).answer(200, lowered(server.challenge())))

    def refused(self, server: ServerLogin, headers: Mapping[str, str]) -> tuple[str, str]:
        with pytest.raises(ProofError) as caught:
            server.check(headers)
        return caught.value.kind, str(caught.value)

    def test_a_nonce_counts_once(self) -> None:
        server = ServerLogin(Secrets.parse(NEW))
        sent = self.proof(server)
        server.check(sent)
        assert self.refused(server, sent)[0] == "out_of_order"

    def test_a_nonce_counts_once_for_a_wrong_proof_too(self) -> None:
        server = ServerLogin(Secrets.parse(NEW))
        sent = self.proof(server)
        wrong = {**sent, PROOF.lower(): b64encode(bytes(32)).decode()}
        assert self.refused(server, wrong) == ("wrong_proof", "The proof of the secret is wrong.")
        assert self.refused(server, sent)[0] == "out_of_order"
        assert not server.is_proved

    def test_the_proof_of_another_connection(self) -> None:
        sent = self.proof(ServerLogin(Secrets.parse(NEW)))
        server = ServerLogin(Secrets.parse(NEW))
        assert self.refused(server, sent)[0] == "out_of_order"
        server.challenge()
        assert self.refused(server, sent)[0] == "wrong_proof"

    def test_an_older_nonce(self) -> None:
        server = ServerLogin(Secrets.parse(NEW))
        sent = self.proof(server)
        server.challenge()
        assert self.refused(server, sent)[0] == "wrong_proof"

    def test_an_unknown_secret(self) -> None:
        server = ServerLogin(Secrets.parse(NEW, OLD))
        sent = self.proof(server)
        lone = ServerLogin(Secrets.parse(OLD))
        lone.challenge()
        assert self.refused(lone, sent)[0] == "no_common_key"

    def test_any_proof_if_it_has_no_secret(self) -> None:
        sent = self.proof(ServerLogin(Secrets.parse(NEW)))
        server = ServerLogin(Secrets())
        assert server.challenge()[KEYS] == ""
        assert self.refused(server, sent)[0] == "no_common_key"

    @pytest.mark.parametrize(
        ("name", "value"),
        [(NONCE, ""), (NONCE, "AAAA"), (KEY, "xyz"), (KEY, "00"), (PROOF, ""), (PROOF, "\xff")],
    )
    def test_malformed_headers(self, name: str, value: str) -> None:
        server = ServerLogin(Secrets.parse(NEW))
        kind, sentence = self.refused(server, {**self.proof(server), name.lower(): value})
        assert kind == "malformed"
        assert name in sentence


def test_logins_are_for_servers_that_must_prove_themselves() -> None:
    logins = Logins(Secrets.parse(NEW), PlainHttp(["10.9.0.0/16"]))
    assert logins(ADDRESS, "10.0.0.7") is not None
    assert logins(ADDRESS, "10.9.0.7") is None
    assert Logins(Secrets(), PlainHttp())(ADDRESS, "10.0.0.7") is None
