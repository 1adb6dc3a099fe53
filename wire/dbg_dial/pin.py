"""Certificate check: the peer must be the user's broker before a token is sent to it.

A certificate that the broker has generated is not signed by an authority: only its fingerprint distinguishes the broker
from an impostor. A certificate of the user can be verified by an authority and the host name, with or without the
fingerprint.
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
    """Reject a broker with neither a fingerprint nor an authority. Raise BadEndpoint."""
    if endpoint.fingerprint is None and endpoint.ca is None:
        raise BadEndpoint(
            f"{endpoint.url} has no fingerprint, so the broker can't be verified",
            "add #sha256:… as `dbg-broker serve` prints it, or set DBG_CA",
        )


def client_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Create a context for TLS 1.2 or later.

    A pinned certificate is compared later, by :func:`check_certificate`. With an authority, the handshake fails unless
    the authority has signed the certificate for the host name. Raise BadSecretFile if the authorities can't be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if endpoint.ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    # A certificate names its hosts in subjectAltName; a common name may be any text. The file may contain an
    # intermediate authority without its root.
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=endpoint.ca)
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or type(error).__name__
        raise BadSecretFile(f"the file of {CA} contains an invalid certificate ({why})", "name a PEM file") from None
    return context


def check_certificate(endpoint: Endpoint, certificate: bytes | None) -> str:
    """Return the fingerprint of the peer's DER certificate after comparing it with the pin, in constant time.

    The TLS handshake has already checked the authority, if one is configured. Raise WrongCertificate if another
    certificate is pinned.
    """
    if not certificate:
        raise WrongCertificate(endpoint.url, "the peer sent no certificate")
    shown = fingerprint_of(certificate)
    if endpoint.fingerprint is None and endpoint.ca is not None:
        return shown
    if endpoint.fingerprint is None or not same_fingerprint(shown, endpoint.fingerprint):
        raise WrongCertificate(endpoint.url, f"it is {shown}, not {endpoint.fingerprint}")
    return shown
