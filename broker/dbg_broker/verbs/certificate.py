"""``dbg-broker certificate``: make the home's certificate if there is none, and print by what peers know it."""

from __future__ import annotations

from pathlib import Path

from dbg_broker.home.certificate import load_own
from dbg_broker.verbs.broker_client import Say


def print_fingerprint(home: Path, say: Say) -> int:
    """Print the fingerprint of the home's own certificate, which is made if there is none. Raise BadSecretFile."""
    say(load_own(home).fingerprint)
    return 0
