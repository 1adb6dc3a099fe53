"""``dbg-broker certificate``: print the fingerprint of the home's certificate; make one if it is missing."""

from __future__ import annotations

import argparse

from dbg_broker.cli.console import home_of, print_line
from dbg_broker.home.certificate import load_own
from dbg_broker.home.private_files import open_home


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add no options, because the verb has none."""


def run(given: argparse.Namespace) -> int:
    """Print the fingerprint of the home's own certificate; make one if it is missing. Raise BadSecretFile."""
    print_line(load_own(open_home(home_of(given))).fingerprint)
    return 0
