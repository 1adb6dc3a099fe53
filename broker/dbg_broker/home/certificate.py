"""The broker's certificate, known to others by its fingerprint: made once and kept in the home, or the user's own.

The next one of the home lies beside it before it is served, so that ranks and terminals know both fingerprints in time.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dbg_broker.home.private_files import read_given, read_private, write_private
from dbg_wire.errors import BadInput, BadSecretFile, printable
from dbg_wire.finding.endpoint import fingerprint_of

CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "key.pem"

NEXT_CERTIFICATE_FILE = "next-certificate.pem"
NEXT_KEY_FILE = "next-key.pem"

NAME = "dbg-broker"
"""Name of the certificate's subject; peers check the fingerprint instead of a name."""

VALID = timedelta(days=3650)
"""Peers don't check it, so the time is only for tools that do."""

CLOCK_ERROR = timedelta(days=1)
"""How far the clocks of these tools may be behind the broker's."""

_FOOTER = "-----END CERTIFICATE-----"
_REMEDY = f"remove {CERTIFICATE_FILE} and {KEY_FILE} there and start again; everyone then needs the new fingerprint"

DAY_SECONDS = 86400.0

SOON_SECONDS = 30 * DAY_SECONDS
"""Seconds before an end from which on it is warned of: time for an authority that signs by hand, holidays included."""

_REMEDY_OF_KEY = "name the key's file with --key, mode 600, without a password"
_REMEDY_OF_CERTIFICATE = "name a PEM file with --certificate: the broker's certificate first, then its chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A certificate to show to peers, in DER form, and the fingerprints of those that are shown later."""

    context: ssl.SSLContext
    certificate: bytes
    others: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the certificate."""
        return fingerprint_of(self.certificate)


def load_own(home: Path) -> Shown:
    """Return the home's certificate with a context for TLS 1.2 or later; if it or its key is missing, make both anew.

    Raise BadSecretFile if the key is open to others, or if the two can't be used.
    """
    context, certificate = _present(home)
    following = next_certificate(home)
    others = () if following is None else (fingerprint_of(following),)
    return Shown(context=context, certificate=certificate, others=others)


def _present(home: Path) -> tuple[ssl.SSLContext, bytes]:
    certificate_path, key_path = home / CERTIFICATE_FILE, home / KEY_FILE
    if not certificate_path.exists() and (home / NEXT_CERTIFICATE_FILE).exists():
        # A switch was cut short.
        _finish_switch(home)
    certificate, key = read_private(certificate_path, others_may_read=True), read_private(key_path)
    if certificate is None or key is None:
        certificate = _make_and_keep(certificate_path, key_path)
    context = new_context()
    try:
        # With an empty password OpenSSL doesn't ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate_path, key_path, password="")
        return context, first_der(certificate)
    except (OSError, ValueError) as error:
        raise BadSecretFile(
            f"{CERTIFICATE_FILE} and {KEY_FILE} in {printable(str(home))} can't be used", _REMEDY
        ) from error


def new_context() -> ssl.SSLContext:
    """Return a server's context for TLS 1.2 or later, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A peer must not have the costly part of TLS done again and again on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # No peer resumes a session, and two tickets are a sixth of the broker's work for a handshake.
    context.num_tickets = 0
    return context


def present_certificate(home: Path) -> bytes | None:
    """Return the home's certificate in DER form, None if none has been made. Raise BadSecretFile."""
    return read_der(home / CERTIFICATE_FILE)


def next_certificate(home: Path) -> bytes | None:
    """Return the certificate that is served after the next switch, None if there is none. Raise BadSecretFile."""
    return read_der(home / NEXT_CERTIFICATE_FILE)


def prepare_next(home: Path) -> bytes:
    """Make the next certificate, unless there is one, and return it in DER form. Raise BadSecretFile."""
    made = next_certificate(home)
    if made is not None:
        return made
    return first_der(_make_and_keep(home / NEXT_CERTIFICATE_FILE, home / NEXT_KEY_FILE))


def switch(home: Path) -> None:
    """Put the next certificate in place of the present one. Raise BadInput if there is none, or BadSecretFile."""
    if next_certificate(home) is None:
        raise BadInput("no next certificate has been made", "type `dbg-broker certificate --rotate` first")
    try:
        # Without a present certificate, a start of the broker finishes what a crash has left half done.
        (home / CERTIFICATE_FILE).unlink(missing_ok=True)
        _finish_switch(home)
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(home))} can't be changed ({error.strerror})", "type the command again"
        ) from None


def _finish_switch(home: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        (home / NEXT_KEY_FILE).replace(home / KEY_FILE)
    (home / NEXT_CERTIFICATE_FILE).replace(home / CERTIFICATE_FILE)


def read_der(path: Path, remedy: str = "remove it") -> bytes | None:
    """Return the first certificate of a PEM file in DER form, None if there is no such file. Raise BadSecretFile."""
    text = read_private(path, others_may_read=True)
    if text is None:
        return None
    try:
        return first_der(text)
    except ValueError:
        raise BadSecretFile(f"{printable(str(path))} holds no certificate", remedy) from None


def _make_and_keep(certificate_path: Path, key_path: Path) -> str:
    certificate, key = _make(datetime.now(UTC))
    try:
        # The old certificate goes before the new key comes, so that a crash never leaves two files that don't match.
        certificate_path.unlink(missing_ok=True)
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(certificate_path))} can't be replaced ({error.strerror})", _REMEDY
        ) from error
    write_private(key_path, key)
    write_private(certificate_path, certificate)
    return certificate


def first_der(pem: str) -> bytes:
    """Return the certificate that is shown, in DER form; others after it are its chain. Raise ValueError."""
    block = pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(_FOOTER) + len(_FOOTER)]
    return ssl.PEM_cert_to_DER_cert(block)


def _make(now: datetime) -> tuple[str, str]:
    # Imported here, since it takes tens of milliseconds, and most starts need no new certificate.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_ERROR)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key_pem.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """One certificate; ``begins`` and ``ends`` are in seconds since the epoch, and ``names`` are those of its hosts."""

    names: tuple[str, ...]
    issuer: str
    subject: str
    begins: float
    ends: float


def read_validity(der: bytes) -> Validity:
    """Return what a certificate says. Raise ValueError if it can't be read."""
    # Imported here, since it takes tens of milliseconds, and few verbs need it.
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(der)
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))
    except x509.ExtensionNotFound:
        names = ()
    return Validity(
        names=names,
        issuer=certificate.issuer.rfc4514_string(),
        subject=certificate.subject.rfc4514_string(),
        begins=certificate.not_valid_before_utc.timestamp(),
        ends=certificate.not_valid_after_utc.timestamp(),
    )


def is_soon(ends: float, now: float) -> bool:
    """Tell whether an end has come or is to be warned of; both are in seconds since the epoch."""
    return ends - now < SOON_SECONDS


def until(ends: float, now: float) -> str:
    """Return an end for people, such as ``until 2026-12-04 12:00 (in 12 days)``."""
    word = "until" if ends > now else "expired"
    return f"{word} {date_of(ends)} ({distance(ends - now)})"


def distance(seconds: float) -> str:
    """Return how far away a moment is, such as ``in 12 days``, ``in 90 minutes`` or ``3 days ago``."""
    size = abs(seconds)
    if size >= 2 * DAY_SECONDS:
        count, unit = int(size // DAY_SECONDS), "days"
    elif size >= 2 * 3600:
        count, unit = int(size // 3600), "hours"
    else:
        count, unit = int(size // 60), "minutes"
    return f"in {count} {unit}" if seconds > 0 else f"{count} {unit} ago"


def date_of(seconds: float) -> str:
    """Return a moment as a date with hour and minute, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def load_given(certificate: Path, key: Path) -> Shown:
    """Return the certificate of two PEM files, read anew at each call. Raise BadSecretFile if it can't be served now.

    Others may read the certificate, and none but the user or root the key.
    """
    der = _first_der(certificate)
    key_text = read_given(key, "--key", _REMEDY_OF_KEY)
    if "ENCRYPTED" in key_text:
        raise BadSecretFile(f"--key {printable(str(key))} has a password", "write it out without one, mode 600")
    _check_dates(certificate, der)
    context = new_context()
    try:
        # With an empty password OpenSSL doesn't ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise _unusable(certificate, key, error) from None
    return Shown(context=context, certificate=der)


def _first_der(path: Path) -> bytes:
    text = read_given(path, "--certificate", _REMEDY_OF_CERTIFICATE, others_may_read=True)
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
