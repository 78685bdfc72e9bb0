"""The handshake: who is welcome, who is not, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from martlet.grid import frames
from martlet.grid.frames import FrameError, decode_message, encode
from martlet.grid.handshake import AcceptorHandshake, ConnectorHandshake, RefusedError
from martlet.grid.options import Options
from martlet.grid.refusals import Refusal
from martlet.grid.secrets import Secrets, acceptor_proof, connector_proof, key_id

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "grid" / "handshake.json"
OLD, NEW = "the old secret of this cluster: long", "the new secret of this cluster: long"
NO_SECRET = Secrets()


def shake(
    acceptor: AcceptorHandshake, connector: ConnectorHandshake
) -> tuple[Options | None, Options | None]:
    """Run the whole handshake; what each side knows of the other."""
    proof = connector.receive(acceptor.start())
    assert connector.peer is None
    welcome = acceptor.receive(proof)
    assert connector.receive(welcome) == b""
    return acceptor.peer, connector.peer


@pytest.mark.parametrize(
    ("accepted", "own"),
    [
        (Secrets.parse(NEW), Secrets.parse(NEW)),
        (Secrets.parse(NEW, OLD), Secrets.parse(OLD)),
        (Secrets.parse(OLD), Secrets.parse(NEW, OLD)),
        (Secrets.parse(NEW, OLD), Secrets.parse(NEW, OLD)),
        (NO_SECRET, NO_SECRET),
    ],
)
def test_both_sides_learn_the_options_of_the_other(accepted: Secrets, own: Secrets) -> None:
    ours, theirs = Options(name="a", window=7), Options(name="c", checksum=True)
    pair = shake(AcceptorHandshake(accepted, ours), ConnectorHandshake(own, theirs))
    assert pair == (theirs, ours)


def test_the_first_own_secret_that_is_accepted_is_used() -> None:
    connector = ConnectorHandshake(Secrets.parse(NEW, OLD), Options())
    acceptor = AcceptorHandshake(Secrets.parse(OLD, NEW), Options())
    [proof] = decode_message(connector.receive(acceptor.start()))
    assert proof[2] == key_id(NEW.encode())


def test_golden_proofs() -> None:
    for case in json.loads(GOLDEN.read_text("utf-8")):
        key = case["secret"].encode()
        nonces = bytes.fromhex(case["acceptor_nonce"]), bytes.fromhex(case["connector_nonce"])
        assert key_id(key).hex() == case["key_id"]
        assert connector_proof(key, *nonces).hex() == case["connector_proof"]
        assert acceptor_proof(key, *nonces).hex() == case["acceptor_proof"]
        secrets = Secrets((key,))
        acceptor = AcceptorHandshake(secrets, Options(), nonces[0])
        connector = ConnectorHandshake(secrets, Options(), nonces[1])
        proof = connector.receive(acceptor.start())
        assert decode_message(proof)[0][3].hex() == case["connector_proof"]
        assert decode_message(acceptor.receive(proof))[0][1].hex() == case["acceptor_proof"]


def refusal_of(acceptor: Secrets, connector: Secrets) -> tuple[str, Refusal, list[str]]:
    """Which side refuses, the kind, and the reasons in the frame that it sends."""
    one, other = AcceptorHandshake(acceptor, Options()), ConnectorHandshake(connector, Options())
    side = "connector"
    try:
        proof = other.receive(one.start())
        side = "acceptor"
        one.receive(proof)
    except RefusedError as error:
        return side, error.kind, [frame[1] for frame in decode_message(error.frame)]
    raise AssertionError("not refused")


def test_a_connector_refuses_what_it_cannot_trust() -> None:
    side, kind, reasons = refusal_of(Secrets.parse(OLD), Secrets.parse(NEW))
    assert (side, kind) == ("connector", Refusal.NO_COMMON_KEY)
    assert reasons == ["the sides have no secret in common"]
    assert refusal_of(NO_SECRET, Secrets.parse(NEW))[:2] == ("connector", Refusal.NO_KEY)
    assert refusal_of(Secrets.parse(NEW), NO_SECRET)[:2] == ("connector", Refusal.NO_KEY)


def acceptor_refusal(message: bytes, secrets: Secrets) -> RefusedError:
    acceptor = AcceptorHandshake(secrets, Options())
    acceptor.start()
    with pytest.raises(RefusedError) as caught:
        acceptor.receive(message)
    assert acceptor.peer is None
    return caught.value


def test_an_acceptor_refuses_wrong_proofs() -> None:
    secrets = Secrets.parse(NEW)
    nonce, known = bytes(32), key_id(NEW.encode())
    cases = [
        (encode(frames.PROOF, nonce, known, bytes(32), {}), Refusal.WRONG_PROOF),
        (encode(frames.PROOF, nonce, bytes(8), bytes(32), {}), Refusal.NO_COMMON_KEY),
        (encode(frames.PROOF, nonce, b"", bytes(32), {}), Refusal.NO_COMMON_KEY),
        (encode(frames.PROOF, nonce, b"", b"", {}), Refusal.NO_KEY),
        (encode(frames.PROOF, nonce, known, b"", {}), Refusal.NO_KEY),
        (encode(frames.PING, 1), Refusal.OUT_OF_ORDER),
        (encode(frames.PING, 1) * 2, Refusal.OUT_OF_ORDER),
        (encode(frames.REFUSED, "not you"), Refusal.BY_PEER),
    ]
    for message, kind in cases:
        assert acceptor_refusal(message, secrets).kind is kind, message
    for key_id_sent, proof in ((known, bytes(32)), (b"", bytes(32)), (known, b"")):
        message = encode(frames.PROOF, nonce, key_id_sent, proof, {})
        assert acceptor_refusal(message, NO_SECRET).kind is Refusal.NO_KEY


def test_a_recorded_proof_is_of_no_use() -> None:
    secrets = Secrets.parse(NEW)
    first, second = (AcceptorHandshake(secrets, Options()) for _ in range(2))
    recorded = ConnectorHandshake(secrets, Options()).receive(first.start())
    second.start()
    with pytest.raises(RefusedError) as caught:
        second.receive(recorded)
    assert caught.value.kind is Refusal.WRONG_PROOF
    assert first.receive(recorded)


def test_a_reflected_proof_is_refused() -> None:
    secrets = Secrets.parse(NEW)
    connector = ConnectorHandshake(secrets, Options())
    acceptor = AcceptorHandshake(secrets, Options())
    [proof] = decode_message(connector.receive(acceptor.start()))
    with pytest.raises(RefusedError) as caught:
        connector.receive(encode(frames.WELCOME, proof[3]))
    assert caught.value.kind is Refusal.WRONG_PROOF
    assert connector.peer is None


def test_a_server_that_knows_no_secret_cannot_say_welcome() -> None:
    connector = ConnectorHandshake(Secrets.parse(NEW), Options())
    connector.receive(AcceptorHandshake(Secrets.parse(NEW), Options()).start())
    with pytest.raises(RefusedError) as caught:
        connector.receive(encode(frames.WELCOME, b""))
    assert caught.value.kind is Refusal.WRONG_PROOF


def test_a_connector_reports_the_reason_of_the_refusal() -> None:
    connector = ConnectorHandshake(Secrets.parse(NEW), Options())
    with pytest.raises(RefusedError, match="because") as caught:
        connector.receive(encode(frames.REFUSED, "because"))
    assert caught.value.frame == b""


def test_frames_out_of_order_are_refused() -> None:
    secrets = Secrets.parse(NEW)
    connector, acceptor = (
        ConnectorHandshake(secrets, Options()),
        AcceptorHandshake(secrets, Options()),
    )
    with pytest.raises(RefusedError, match="instead of CHALLENGE"):
        connector.receive(encode(frames.WELCOME, bytes(32)))
    shake(acceptor, connector)
    for side in (connector, acceptor):
        with pytest.raises(RefusedError, match="before the end of the handshake"):
            side.receive(encode(frames.PING, 1))


def test_long_messages_are_refused_and_unknown_frames_ignored() -> None:
    acceptor = AcceptorHandshake(NO_SECRET, Options())
    with pytest.raises(FrameError, match="4096"):
        acceptor.receive(encode(frames.PROOF, bytes(32), b"", b"", {"later": "x" * 4096}))
    assert acceptor.receive(encode(99)) == b""
    assert acceptor.peer is None


@pytest.mark.parametrize(
    ("secret", "previous", "sentence"),
    [
        ("", "", "must be set"),
        ("  ", NEW, "must be set"),
        (NEW[:31], "", "grid_secret has 31 characters"),
        (NEW, OLD[:31], "grid_secret_previous has 31 characters"),
        ("ä" * 31, "", "31 characters"),
        (NEW, NEW, "the same"),
        ("none", NEW, "cannot be combined"),
        (NEW, "none", "cannot be combined"),
    ],
)
def test_wrong_secrets_are_refused(secret: str, previous: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        Secrets.parse(secret, previous)
    assert NEW not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    secrets = Secrets.parse(f" {NEW}\n", OLD)
    assert secrets.keys == (NEW.encode(), OLD.encode())
    assert "secret of" not in repr(secrets)
    assert Secrets.parse("none").keys == ()
    assert Secrets.parse("ä" * 32).keys == (("ä" * 32).encode(),)
