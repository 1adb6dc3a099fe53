"""``dbg-broker certificate``: make the home's certificate if there is none, and print by what peers know it."""

from __future__ import annotations

import argparse

from dbg_broker.cli.console import home_of, say
from dbg_broker.home.certificate import load_own
from dbg_broker.home.private_files import open_home


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb, of which it has none."""


def run(given: argparse.Namespace) -> int:
    """Print the fingerprint of the home's own certificate, which is made if there is none. Raise BadSecretFile."""
    say(load_own(open_home(home_of(given))).fingerprint)
    return 0
