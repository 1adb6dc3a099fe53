"""The check that the peer is the user's broker, and that a token may be sent to it.

No authority vouches for a certificate that a broker has made itself: only its fingerprint tells the broker from an
impostor. A certificate of the user's own may be known by an authority and the host's name instead, or by both.
"""

from __future__ import annotations

import ssl

from dbg_dial.endpoint import Endpoint, fingerprint_of, same_fingerprint
from dbg_dial.home import CA
from dbg_wire.errors import (
    BadEndpoint,
    BadSecretFile,
    WrongCertificate,
)


def check_endpoint(endpoint: Endpoint) -> None:
    """Refuse a broker without a fingerprint or an authority. Raise BadEndpoint."""
    if endpoint.fingerprint is None and endpoint.ca is None:
        raise BadEndpoint(
            f"{endpoint.url} has no fingerprint, and only a pinned broker is dialled",
            "add #sha256:… as `dbg-broker serve` prints it, or set DBG_CA",
        )


def client_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or later, which lets :func:`check_certificate` compare a pinned certificate.

    With an authority the handshake fails unless that has signed the certificate, for the host's name. Raise
    BadSecretFile if the authorities can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if endpoint.ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    # A certificate names its hosts by subjectAltName; a common name may be anything. The file may hold the authority
    # that signs brokers without the one above it.
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=endpoint.ca)
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or type(error).__name__
        raise BadSecretFile(
            f"the file that {CA} names holds a certificate that can't be read ({why})", "name a PEM file"
        ) from None
    return context


def check_certificate(endpoint: Endpoint, certificate: bytes | None) -> str:
    """Return the fingerprint of the DER certificate that was shown, compared in constant time.

    The context of the handshake has checked the authority, where one is named. Raise WrongCertificate if another
    certificate is pinned.
    """
    if not certificate:
        raise WrongCertificate(endpoint.url, "it shows no certificate")
    shown = fingerprint_of(certificate)
    if endpoint.fingerprint is None and endpoint.ca is not None:
        return shown
    if endpoint.fingerprint is None or not same_fingerprint(shown, endpoint.fingerprint):
        raise WrongCertificate(endpoint.url, f"its certificate is {shown}, not {endpoint.fingerprint}")
    return shown
