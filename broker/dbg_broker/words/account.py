"""The options by which a broker knows whom to let in, how long stops last, and what to tell and keep of them.

``serve`` has them, and ``run`` for the broker that it starts.
"""

from __future__ import annotations

from argparse import ArgumentParser, _ArgumentGroup


def add_account_options(to: ArgumentParser | _ArgumentGroup) -> None:
    """Add the options."""
    to.add_argument(
        "--allow",
        metavar="NET",
        action="append",
        default=[],
        help="take ranks and terminals from this network alone, e.g. 10.0.0.0/8; may be given again; this host always "
        "may (default: from everywhere)",
    )
    to.add_argument(
        "--audit-input",
        action="store_true",
        help="have the audit log hold what is typed, too, passwords included (default: who did what, and no keys)",
    )
    to.add_argument(
        "--record",
        metavar="DIR",
        help="record what each stop shows, from the first terminal on it to its end, in DIR/JOB/HOST-RANK-stopN-TIME"
        ".cast; `asciinema play FILE` shows one (default: record nothing)",
    )
    to.add_argument(
        "--record-input",
        action="store_true",
        help="record the keys as well, passwords included (default: what is shown, and who typed when)",
    )
    to.add_argument(
        "--record-max",
        metavar="SIZE",
        help="bytes that all recordings may take, e.g. 500M or 10G; the oldest are removed beyond it (default: 2G; a "
        "file takes 64M, and the rest of its stop is not recorded)",
    )
    to.add_argument(
        "--on-event",
        metavar="CMD",
        help="run this command, with a JSON document on its stdin, for the first stop of a run, a crash, a hang that "
        "`why` or `run --hang-after` finds, a stop that ends by itself soon, and a refused token (default: none)",
    )
    to.add_argument(
        "--max-lease",
        metavar="S",
        help="let a stop end by itself when nobody has typed at it for so long, e.g. 8h: in seconds, or with s, m, h "
        "or d (default: a stop lasts until somebody ends it)",
    )
