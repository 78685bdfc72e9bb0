"""minio-go's own functional tests: a program of one function for each test, from its module."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import judges
from go_sdks import MODULE
from s3_client import KEY, USER
from suite import Result

_THEIRS = "github.com/minio/minio-go/v7"
SECONDS_MAX = 1800.0
#: Those in a further block need TLS or a KMS.
_CALL = re.compile(r"(?m)^\t\t(test\w+)\(\)$")
#: Our `main` in place of theirs: a test that panics does not end the others.
_MAIN = """\
package main

import (
\t"fmt"
\t"log/slog"
\t"os"
)

func main() {{
\tslog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
\twanted := map[string]bool{{}}
\tfor _, name := range os.Args[1:] {{
\t\twanted[name] = true
\t}}
\tfor _, one := range []struct {{
\t\tname string
\t\trun  func()
\t}}{{
{table}
\t}} {{
\t\tif len(wanted) > 0 && !wanted[one.name] {{
\t\t\tcontinue
\t\t}}
\t\tslog.Info("", "judge", one.name)
\t\tfunc() {{
\t\t\tdefer func() {{
\t\t\t\tif reason := recover(); reason != nil {{
\t\t\t\t\tslog.Info("", "status", "FAIL", "message", fmt.Sprint("panic: ", reason))
\t\t\t\t}}
\t\t\t}}()
\t\t\tone.run()
\t\t}}()
\t}}
}}
"""


def run_minio_functional(url: str, selection: Sequence[str]) -> list[Result]:
    """Return the outcome of each test that its program has, or of those of ``selection``."""
    source = _source()
    program = _build(source)
    endpoint = urlsplit(url).netloc
    environ = {
        **os.environ,
        "SERVER_ENDPOINT": endpoint,
        "ACCESS_KEY": USER,
        "SECRET_KEY": KEY,
        "SERVER_REGION": "us-east-1",
        "ENABLE_HTTPS": "0",
        "MINT_MODE": "full",
        "RUN_ON_FAIL": "1",
    }
    said = program.parent / "output.txt"
    with said.open("wb") as output:
        subprocess.run(
            [program, *selection],
            cwd=program.parent,
            env=environ,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SECONDS_MAX,
        )
    return outcomes(said.read_text(errors="replace").splitlines())


def outcomes(lines: Sequence[str]) -> list[Result]:
    """The outcome of each test in what the program says: its first failure counts."""
    found: dict[str, Result] = {}
    name = ""
    for line in lines:
        if not line.startswith("{"):
            continue  # warnings of the SDK
        said: Mapping[str, str] = json.loads(line)
        if "judge" in said:
            name = said["judge"]
            found[name] = Result(name, "passed")
        elif said.get("status") == "FAIL" and found[name].outcome != "failed":
            reason = f"{said.get('message', '')} {said.get('error', '')}".strip()
            found[name] = Result(name, "failed", " ".join(reason.split())[:300])
        elif said.get("status") == "NA" and found[name].outcome == "passed":
            found[name] = Result(name, "skipped", str(said.get("alert", "")))
    return list(found.values())


def _source() -> Path:
    """Return the unpacked module in the version that our own module pins; it can be written to."""
    asked = ["go", "mod", "download", "-json", _THEIRS]
    done = subprocess.run(asked, cwd=MODULE, check=True, capture_output=True, text=True)
    stored = Path(json.loads(done.stdout)["Dir"])
    source = judges.WORK / stored.name
    if not (source / "judge").exists():
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(stored, source, copy_function=shutil.copyfile)
        for directory in [source, *(path for path in source.rglob("*") if path.is_dir())]:
            directory.chmod(0o755)
        (source / "judge").mkdir()
    return source


def _build(source: Path) -> Path:
    """Build the program, with our ``main``."""
    text = (source / "functional_tests.go").read_text()
    theirs = text.index("\nfunc main() {")
    names = list(dict.fromkeys(_CALL.findall(text, theirs)))
    text = text.replace("\nfunc main() {", "\nfunc theirMain() {").replace("//go:build mint\n", "")
    (source / "judge" / "theirs.go").write_text(text)
    table = "\n".join(f'\t\t{{"{name}", {name}}},' for name in names)
    (source / "judge" / "main.go").write_text(_MAIN.format(table=table))
    program = source / "judge" / "functional"
    environ = {**os.environ, "GOFLAGS": "-p=1 -buildvcs=false"}
    command = ["nice", "go", "build", "-o", str(program), "./judge"]
    subprocess.run(command, cwd=source, env=environ, check=True)
    return program
