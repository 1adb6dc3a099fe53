"""The broker's certificate, identified by its fingerprint: created once and stored in the home, or the user's own."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dbg_broker.home.private_files import read_given, read_private, write_private
from dbg_dial.endpoint import fingerprint_of
from dbg_wire.errors import BadSecretFile, printable

CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "key.pem"

NAME = "dbg-broker"
"""Name of the certificate's subject; peers check the fingerprint instead of a name."""

VALID = timedelta(days=3650)
"""Period of validity. Peers don't check it; it matters only to other tools."""

CLOCK_ERROR = timedelta(days=1)
"""How far the clocks of tools that check the validity may be behind the broker's."""

_FOOTER = "-----END CERTIFICATE-----"
_REMEDY = f"remove {CERTIFICATE_FILE} and {KEY_FILE} there and start again; all peers then need the new fingerprint"
_REMEDY_OF_KEY = "name the key's file with --key, mode 600, without a password"
_REMEDY_OF_CERTIFICATE = "name a PEM file with --certificate: the broker's certificate first, then its chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCertificate:
    """Certificate that is served to peers, in DER form, and its TLS context."""

    context: ssl.SSLContext
    certificate: bytes

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the certificate."""
        return fingerprint_of(self.certificate)


def load_own(home: Path) -> ServedCertificate:
    """Return the home's certificate with a context for TLS 1.2 or later; create both files if one is missing.

    Raise BadSecretFile if other users can read the key, or if the files can't be used.
    """
    certificate_path, key_path = home / CERTIFICATE_FILE, home / KEY_FILE
    certificate, key = read_private(certificate_path, others_may_read=True), read_private(key_path)
    if certificate is None or key is None:
        certificate = _make_and_keep(certificate_path, key_path)
    try:
        return _shown(certificate_path, key_path, first_der(certificate))
    except (OSError, ValueError) as error:
        raise BadSecretFile(
            f"{CERTIFICATE_FILE} and {KEY_FILE} in {printable(str(home))} can't be used", _REMEDY
        ) from error


def _shown(certificate: Path, key: Path, der: bytes) -> ServedCertificate:
    """Return a certificate with a server's context for TLS 1.2 or later. Raise OSError and ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A peer must not trigger the expensive part of TLS repeatedly on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # No tickets are sent: no peer resumes a session, and two tickets are a sixth of the work for a handshake.
    context.num_tickets = 0
    # With an empty password OpenSSL does not prompt for the password of an encrypted key.
    context.load_cert_chain(certificate, key, password="")
    return ServedCertificate(context=context, certificate=der)


def _make_and_keep(certificate_path: Path, key_path: Path) -> str:
    certificate, key = _make(datetime.now(UTC))
    try:
        # Remove the old certificate before writing the new key, so that a crash never leaves two files that don't
        # match.
        certificate_path.unlink(missing_ok=True)
    except OSError as error:
        raise BadSecretFile(
            f"{printable(str(certificate_path))} can't be replaced ({error.strerror})", _REMEDY
        ) from error
    write_private(key_path, key)
    write_private(certificate_path, certificate)
    return certificate


def first_der(pem: str) -> bytes:
    """Return the first certificate of a PEM text in DER form; the others are its chain. Raise ValueError."""
    block = pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(_FOOTER) + len(_FOOTER)]
    return ssl.PEM_cert_to_DER_cert(block)


def _make(now: datetime) -> tuple[str, str]:
    # Imported here, because it takes tens of milliseconds, and most starts need no new certificate.
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


def date_of(seconds: float) -> str:
    """Format a time as a date with hour and minute, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def load_given(certificate: Path, key: Path) -> ServedCertificate:
    """Return the user's own certificate. Each call reads the two PEM files again.

    Other users may read the certificate, but not the key. Raise BadSecretFile if the certificate can't be served now.
    """
    der = _first_der(certificate)
    key_text = read_given(key, "--key", _REMEDY_OF_KEY)
    if "ENCRYPTED" in key_text:
        raise BadSecretFile(f"--key {printable(str(key))} has a password", "store it without one, mode 600")
    _check_dates(certificate, der)
    try:
        return _shown(certificate, key, der)
    except (OSError, ValueError) as error:
        raise _unusable(certificate, key, error) from None


def _first_der(path: Path) -> bytes:
    text = read_given(path, "--certificate", _REMEDY_OF_CERTIFICATE, others_may_read=True)
    try:
        return first_der(text)
    except ValueError:
        raise BadSecretFile(
            f"--certificate {printable(str(path))} does not contain a certificate", _REMEDY_OF_CERTIFICATE
        ) from None


def _check_dates(path: Path, der: bytes) -> None:
    # Imported here, because it takes tens of milliseconds, and most brokers make their own certificate.
    from cryptography import x509

    named, now = f"--certificate {printable(str(path))}", datetime.now(UTC)
    try:
        found = x509.load_der_x509_certificate(der)
    except ValueError:
        raise BadSecretFile(f"{named} contains an invalid certificate", _REMEDY_OF_CERTIFICATE) from None
    if found.not_valid_after_utc <= now:
        end = date_of(found.not_valid_after_utc.timestamp())
        raise BadSecretFile(f"{named} expired {end}", "have it renewed by your authority")
    if found.not_valid_before_utc > now:
        start = date_of(found.not_valid_before_utc.timestamp())
        raise BadSecretFile(f"{named} is not valid before {start}", "check this host's clock")


def _unusable(certificate: Path, key: Path, error: Exception) -> BadSecretFile:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return BadSecretFile(
            f"--key {printable(str(key))} is not the key of --certificate {printable(str(certificate))}",
            "name the key that belongs to this certificate",
        )
    return BadSecretFile(
        f"--certificate {printable(str(certificate))} and --key {printable(str(key))} can't be used "
        f"({reason or type(error).__name__})",
        _REMEDY_OF_KEY,
    )
