# SPDX-License-Identifier: Apache-2.0
"""The command line of ``martlet recon``."""

from __future__ import annotations

import argparse
import json
import time

from cluster import swift_dir
from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.recon.ask import Which, clients_of, servers_of
from cluster.recon.questions import QUESTIONS
from cluster.recon.report import OVERVIEW, Report, look_here
from cluster.swift_dir import KINDS, ClusterFiles
from martlet.recon.ask import ask_all

EXIT_WRONG = 1
EXIT_NO_ANSWER = 3
_SECONDS_DEFAULT = 5.0
_JITTER_DEFAULT = 0.1

_EPILOG = """\
Without a question: one line for each server. Exit status: 0 all is well; 1 something is wrong; 2
the command line is wrong; 3 a server does not answer.

examples:
  martlet recon                                all servers of the cluster in MARTLET_HOME
  martlet recon -d /etc/martlet                all servers of the rings in /etc/martlet
  martlet recon object --replication --async   two questions to the object servers
  martlet recon --all --json                   all questions to all servers, for programs
  martlet recon --md5 --conf-md5 --time        whether the hosts agree
  martlet recon --diskusage --top 10           the ten devices that are fullest
"""
#: Further names of options, those of swift-recon.
_ALIASES = {
    "async": ("-a",),
    "replication": ("-r",),
    "unmounted": ("-u",),
    "diskusage": ("-D",),
    "loadstats": ("-l",),
    "quarantined": ("-q",),
    "time": ("-T",),
    "versions": ("--swift-versions",),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``recon`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "recon",
        help="ask all storage servers how they are",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kinds",
        nargs="*",
        metavar="KIND",
        help="account, container or object: only servers of these kinds",
    )
    questions = parser.add_argument_group("questions")
    for question in QUESTIONS:
        names = (*_ALIASES.get(question.name, ()), f"--{question.name}")
        questions.add_argument(
            *names,
            dest="questions",
            action="append_const",
            const=question.name,
            help=question.help,
        )
    questions.add_argument("--all", action="store_true", help="all of these questions")
    swift_dir.add_option(parser)
    parser.add_argument(
        *("-p", "--policy"), metavar="POLICY", help="only object servers of this storage policy"
    )
    parser.add_argument("--region", type=int, metavar="N", help="only servers of this region")
    parser.add_argument("-z", "--zone", type=int, metavar="N", help="only servers of this zone")
    parser.add_argument(
        *("-t", "--timeout"),
        type=_seconds,
        default=_SECONDS_DEFAULT,
        metavar="SECONDS",
        help=f"longest wait for an answer (default: {_SECONDS_DEFAULT:.0f})",
    )
    parser.add_argument(
        "--jitter",
        type=_seconds,
        default=_JITTER_DEFAULT,
        metavar="SECONDS",
        help=f"with --time: how far a clock may be off (default: {_JITTER_DEFAULT})",
    )
    for name, which in (("top", "most"), ("lowest", "least")):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=0,
            metavar="COUNT",
            help=f"with --diskusage: only so many devices, those in use {which}",
        )
    parser.add_argument("--json", action="store_true", help="all answers as JSON")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 86400:
        raise argparse.ArgumentTypeError("seconds above 0 are needed")
    return number


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Ask, print the answers, and return the exit status.

    :raises ClusterError: the rings or the conf cannot be used, or an argument is wrong.
    """
    kinds = check_kinds(arguments.kinds)
    files = ClusterFiles.load(swift_dir.swift_dir_of(home, arguments.swift_dir))
    policy = None if arguments.policy is None else files.policy(arguments.policy).index
    names = [q.name for q in QUESTIONS] if arguments.all else arguments.questions or OVERVIEW
    questions = [question for question in QUESTIONS if question.name in set(names)]
    servers = servers_of(files, Which(kinds, policy, arguments.region, arguments.zone))

    def paths_of(kind: str) -> list[str]:
        return [q.path_for(kind) for q in questions if kind in q.kinds]

    asked = [server for server in servers if paths_of(server.kind)]
    if not asked:
        raise ClusterError(
            f"there is nothing to ask: the rings in {files.directory} have no such server, or the "
            "questions are none for these kinds"
        )
    replies = ask_all(asked, paths_of, clients_of(files, arguments.timeout))
    here = look_here(files.directory, time.time(), arguments.jitter)
    is_overview = not arguments.all and not arguments.questions
    report = Report(here, questions, replies, is_overview, arguments.top, arguments.lowest)
    print(json.dumps(report.as_json(), indent=2) if arguments.json else report.as_text())
    if report.silent:
        return EXIT_NO_ANSWER
    return EXIT_WRONG if report.problems() else 0


def check_kinds(words: list[str]) -> list[str]:
    """The kinds of servers that are named; all, if none is.

    :raises ClusterError: a word is no kind.
    """
    for word in words:
        if word not in KINDS:
            raise ClusterError(f"{word!r} is no kind of server: {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in words] or list(KINDS)
