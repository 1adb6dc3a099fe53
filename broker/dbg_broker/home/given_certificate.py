"""A certificate of the user's own, with its key: both are files that the user names and renews."""

from __future__ import annotations

import os
import ssl
import stat
import time
from pathlib import Path

from dbg_broker.home.certificate import Shown, first_der
from dbg_broker.home.rendezvous import MAX_PRIVATE_FILE
from dbg_broker.home.validity import date_of, read_validity
from dbg_dial.find import check_own, open_at_once
from dbg_wire.errors import BadSecretFile, printable

_REMEDY_OF_KEY = "name the key's file with --key, mode 600, without a password"
_REMEDY_OF_CERTIFICATE = "name a PEM file with --certificate: the broker's certificate first, then its chain"


def load_given(certificate: Path, key: Path) -> Shown:
    """Return the certificate of two PEM files, read anew at each call. Raise BadSecretFile if it can't be served now.

    Others may read the certificate, and none but the user or root the key.
    """
    der = _first_der(certificate)
    key_text = _text(key, "--key", _REMEDY_OF_KEY, others_may_read=False)
    if "ENCRYPTED" in key_text:
        raise BadSecretFile(f"--key {printable(str(key))} has a password", "write it out without one, mode 600")
    _check_dates(certificate, der)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # With an empty password OpenSSL doesn't ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise _unusable(certificate, key, error) from None
    return Shown(context=context, certificate=der)


def _first_der(path: Path) -> bytes:
    text = _text(path, "--certificate", _REMEDY_OF_CERTIFICATE, others_may_read=True)
    try:
        return first_der(text)
    except ValueError:
        raise BadSecretFile(
            f"--certificate {printable(str(path))} holds no certificate", _REMEDY_OF_CERTIFICATE
        ) from None


def _check_dates(path: Path, der: bytes) -> None:
    named, now = f"--certificate {printable(str(path))}", time.time()
    try:
        found = read_validity(der)
    except ValueError:
        raise BadSecretFile(f"{named} holds a certificate that can't be read", _REMEDY_OF_CERTIFICATE) from None
    if found.ends <= now:
        raise BadSecretFile(f"{named} expired {date_of(found.ends)}", "have it renewed by your authority")
    if found.begins > now:
        raise BadSecretFile(f"{named} is not valid before {date_of(found.begins)}", "look at this host's clock")


def _unusable(certificate: Path, key: Path, error: Exception) -> BadSecretFile:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return BadSecretFile(
            f"--key {printable(str(key))} is not the key of --certificate {printable(str(certificate))}",
            "name the one that was made with it",
        )
    return BadSecretFile(
        f"--certificate {printable(str(certificate))} and --key {printable(str(key))} can't be used "
        f"({reason or type(error).__name__})",
        _REMEDY_OF_KEY,
    )


def _text(path: Path, option: str, remedy: str, *, others_may_read: bool) -> str:
    """Return the text of a file that only the user or root can have written. Raise BadSecretFile."""
    named = f"{option} {printable(str(path))}"
    try:
        with open_at_once(str(path)) as file:
            mode = check_own(file, str(path), os.geteuid(), others_may_read=others_may_read)
            if not stat.S_ISREG(mode):
                raise BadSecretFile(f"{named} is not a regular file", remedy)
            return file.read(MAX_PRIVATE_FILE).decode("utf-8")
    except OSError as error:
        raise BadSecretFile(f"{named} can't be read ({error.strerror})", remedy) from None
    except UnicodeDecodeError:
        raise BadSecretFile(f"{named} is not a PEM file", "name the file of the certificate or of its key") from None
