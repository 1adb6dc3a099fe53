"""``dbg-broker certificate``: show a certificate, prepare the home's next one, and have the broker show that."""

from __future__ import annotations

import time
from pathlib import Path

from dbg_broker.home.certificate import (
    next_certificate,
    prepare_next,
    present_certificate,
    read_der,
    read_validity,
    switch,
    until,
)
from dbg_broker.home.rendezvous import read_rendezvous
from dbg_broker.journal.audit import note
from dbg_broker.verbs.broker_client import Say, notify_broker
from dbg_broker.verbs.listening import lines_to_paste
from dbg_wire.errors import BadInput, BadSecretFile, printable
from dbg_wire.finding.endpoint import fingerprint_of
from dbg_wire.finding.rendezvous import Rendezvous
from dbg_wire.records.audit import What


def show_certificates(home: Path, file: str | None, say: Say) -> int:
    """Print what a file's certificate says, or those of the home. Raise DbgError."""
    if file is not None:
        der = read_der(Path(file), "name a PEM file")
        if der is None:
            raise BadSecretFile(f"{printable(file)} is not there", "name a PEM file")
        for line in _lines(der):
            say(line)
        return 0
    present, following = present_certificate(home), next_certificate(home)
    for line in ["this home has no certificate yet"] if present is None else _lines(present):
        say(line)
    if following is not None:
        say("the next one, which `dbg-broker certificate --switch` has the broker show:")
        for line in _lines(following):
            say(f"  {line}")
    other = _shows_another(home)
    if other is not None:
        say(f"the broker that serves this home shows another one, of `serve --certificate`: {other.fingerprint}")
    return 0


def rotate(home: Path, say: Say, aside: Say, columns: int | None = None) -> int:
    """Make the next certificate of a home, and have all who read the home know it. Raise DbgError."""
    given = _shows_another(home)
    if given is not None:
        raise BadInput(
            f"the broker at {printable(given.url)} shows a certificate that it was given by --certificate",
            "renew those files, and type `dbg-broker certificate --switch`",
        )
    present = present_certificate(home)
    if present is None:
        raise BadInput("this home has no certificate yet", "start `dbg-broker serve`, which makes one")
    is_new = next_certificate(home) is None
    following = prepare_next(home)
    if is_new:
        note(home, What.CERTIFICATE, text=f"prepared {fingerprint_of(following)}")
    told = notify_broker(home, aside)
    say(f"the next certificate is {'ready' if is_new else 'ready since before'}{told}: {fingerprint_of(following)}")
    say("ranks and terminals that share this home know it from now on; ranks that run read it when they dial again")
    serving = read_rendezvous(home)
    address = "HOST:6900" if serving is None else serving.url.removeprefix("wss://")
    pins = f"{address}#{fingerprint_of(present)},{fingerprint_of(following)}"
    for line in lines_to_paste("where the home is not shared, before the switch", pins, "", columns):
        say(line)
    say("when all of them have it:  dbg-broker certificate --switch")
    return 0


def switch_certificate(home: Path, say: Say, aside: Say) -> int:
    """Have the broker show the home's next certificate, or the renewed files of --certificate. Raise DbgError."""
    if _shows_another(home) is None:
        switch(home)
        present = present_certificate(home)
        shown = "" if present is None else f": {fingerprint_of(present)}"
        told = notify_broker(home, aside)
        say(f"the next certificate is the present one now{told}{shown}")
    else:
        shown = ""
        if not notify_broker(home, aside):
            return 1
        say("the broker that serves has read the files of --certificate anew")
    note(home, What.CERTIFICATE, text=f"switched{shown}")
    say("connections that are open stay; who dials from now on must know the new one")
    return 0


def _lines(der: bytes) -> list[str]:
    try:
        found = read_validity(der)
    except ValueError:
        raise BadSecretFile("the certificate can't be read", "name a PEM file") from None
    names = ", ".join(printable(name) for name in found.names)
    by = "itself" if found.issuer == found.subject else printable(found.issuer)
    return [fingerprint_of(der), f"  {until(found.ends, time.time())}, for {names or 'no host'}, signed by {by}"]


def _shows_another(home: Path) -> Rendezvous | None:
    """Return the broker that serves the home with a certificate that is not the home's."""
    serving = read_rendezvous(home)
    if serving is None or serving.fingerprint is None:
        return None
    own = [fingerprint_of(der) for der in (present_certificate(home), next_certificate(home)) if der is not None]
    return None if serving.fingerprint in own else serving
