"""Extraction of archives and bulk deletes through real processes."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest
from running_cluster import RunningCluster, await_true
from swift_api import Account

JSON = {"Accept": "application/json"}


def archive(files: dict[str, bytes], compression: str = "") -> bytes:
    stream = io.BytesIO()
    mode: Any = f"w:{compression}"
    with tarfile.open(fileobj=stream, mode=mode) as opened:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            opened.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def extract(account: Account, path: str, kind: str, body: Any) -> dict[str, Any]:
    answer = account.send("PUT", f"{account.path}{path}?extract-archive={kind}", JSON, body)
    assert answer.status == 200
    report: dict[str, Any] = answer.json
    return report


def sizes(account: Account, container: str) -> dict[str, int]:
    """Return name and bytes of each object in the listing."""
    listed = account.call("GET", container, format="json").json
    return {entry["name"]: entry["bytes"] for entry in listed}


@pytest.mark.parametrize("compression", ["", "gz", "bz2"])
def test_an_archive_becomes_objects_and_goes_again(
    account: Account, container: str, compression: str
) -> None:
    files = {f"{number % 10}/o{number}.txt": b"%d" % number for number in range(300)}
    files["large"] = b"x" * 3_000_000
    kind = f"tar.{compression}".strip(".")
    report = extract(account, f"/{container}/in", kind, archive(files, compression))
    assert (report["Response Status"], report["Errors"]) == ("201 Created", [])
    assert report["Number Files Created"] == len(files)
    stored = {f"in/{name}": len(content) for name, content in files.items()}
    await_true(lambda: sizes(account, container) == stored, "the listing")
    found = account.call("GET", container, "in/7/o17.txt")
    assert (found.body, found.headers["content-type"]) == (b"17", "text/plain")
    names = "".join(f"/{container}/in/{name}\n" for name in files) + f"/{container}\n"
    deleted = account.send("POST", f"{account.path}?bulk-delete", JSON, names.encode()).json
    if deleted["Errors"]:  # a late container server still lists some objects
        assert deleted["Errors"] == [[f"/{container}", "409 Conflict"]]
        await_true(lambda: account.call("DELETE", container).status == 204, "an empty container")
    else:
        assert deleted["Response Status"] == "200 OK", deleted
    assert deleted["Number Deleted"] == len(files) + (not deleted["Errors"])
    # A quorum deletes it; a late container server still has it.
    await_true(lambda: account.call("HEAD", container).status == 404, "no container")


def test_containers_are_made(account: Account, container: str) -> None:
    report = extract(account, "", "tar", archive({f"{container}-new/o": b"x", "top": b"y"}))
    assert (report["Number Files Created"], report["Errors"]) == (1, [])
    assert account.call("GET", f"{container}-new", "o").body == b"x"


def test_an_archive_of_unknown_length_that_breaks_off(account: Account, container: str) -> None:
    whole = archive({f"o{number}": b"x" * 1000 for number in range(20)})
    pieces = (whole[start : start + 777] for start in range(0, len(whole) // 2, 777))
    report = extract(account, f"/{container}", "tar", pieces)
    assert report["Response Status"] == "400 Bad Request"
    assert report["Response Body"].startswith("Invalid Tar File")
    created = report["Number Files Created"]
    assert created > 0
    await_true(lambda: len(account.call("GET", container).lines) == created, "the listing")


def test_without_a_token_nothing_is_stored(account: Account, container: str) -> None:
    nobody = account.again()
    nobody.token = ""
    report = extract(nobody, f"/{container}", "tar", archive({"o": b"x"}))
    assert report["Response Status"] == "401 Unauthorized"
    assert account.call("GET", container).lines == []


def test_an_archive_is_held_to_the_quota(account: Account, container: str) -> None:
    account.call("POST", container, headers={"X-Container-Meta-Quota-Count": "50"})
    files = {f"o{number}": b"x" for number in range(300)}
    report = extract(account, f"/{container}", "tar", archive(files))
    stored = report["Number Files Created"]
    in_flight = 128  # upload_concurrency
    assert 50 <= stored <= 50 + in_flight - 1
    assert report["Response Status"] == "400 Bad Request"
    await_true(lambda: len(account.call("GET", container).lines) == stored, "the listing")
    assert {status for _, status in report["Errors"]} == {"413 Request Entity Too Large"}


def test_info_tells_the_limits(cluster: RunningCluster, account: Account) -> None:
    info = account.send("GET", "/info").json
    assert info["bulk_delete"]["max_deletes_per_request"] == 10000
    assert info["bulk_upload"]["max_failed_extractions"] == 1000
