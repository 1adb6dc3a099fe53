"""The broker's own certificate: made once, kept in the home, and known to others by its fingerprint."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta, timezone
from pathlib import Path

from dbg_broker.home.rendezvous import read_private, write_private
from dbg_wire.endpoint import fingerprint_of
from dbg_wire.errors import BadSecretFile, printable

CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "key.pem"

NAME = "dbg-broker"
"""Name of the certificate's subject; peers check the fingerprint instead of a name."""

VALID = timedelta(days=3650)
"""Peers don't check it, so the time is only for tools that do."""

CLOCK_ERROR = timedelta(days=1)
"""How far the clocks of these tools may be behind the broker's."""

_FOOTER = "-----END CERTIFICATE-----"
_REMEDY = f"remove {CERTIFICATE_FILE} and {KEY_FILE} there and start again; everyone then needs the new fingerprint"


def server_context(home: Path) -> tuple[ssl.SSLContext, str]:
    """Return the server's TLS context, for TLS 1.2 or later, and the fingerprint of its certificate.

    The certificate kept in the home is used; if it or its key is missing, both are made anew. Raise BadSecretFile if
    the key is open to others, or if the two can't be used.
    """
    certificate_path, key_path = home / CERTIFICATE_FILE, home / KEY_FILE
    certificate, key = read_private(certificate_path, others_may_read=True), read_private(key_path)
    if certificate is None or key is None:
        certificate = _make_and_keep(certificate_path, key_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A peer must not have the costly part of TLS done again and again on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # With an empty password OpenSSL doesn't ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate_path, key_path, password="")
        return context, fingerprint_of(_first_der(certificate))
    except (OSError, ValueError) as error:
        raise BadSecretFile(
            f"{CERTIFICATE_FILE} and {KEY_FILE} in {printable(str(home))} can't be used", _REMEDY
        ) from error


def _make_and_keep(certificate_path: Path, key_path: Path) -> str:
    certificate, key = _make(datetime.now(timezone.utc))
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


def _first_der(pem: str) -> bytes:
    """Return the certificate that is shown; others after it are its chain."""
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
