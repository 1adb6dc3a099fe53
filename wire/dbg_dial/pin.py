"""The one check of who is at the other end, and of what may be sent there.

Names and authorities say nothing about a certificate that a broker made for itself: its fingerprint does. Without TLS,
as of a broker that serves ``--insecure``, anybody may listen, so only tokens that open nothing later are sent.
"""

from __future__ import annotations

import ssl

from dbg_wire.endpoint import Endpoint, fingerprint_of, same_fingerprint
from dbg_wire.errors import BadEndpoint, WrongCertificate
from dbg_wire.throw_away import WHERE_THEY_ARE, is_throw_away


def check_endpoint(endpoint: Endpoint) -> None:
    """Refuse an address with TLS and without a fingerprint, or the other way round. Raise BadEndpoint."""
    if endpoint.secure and endpoint.fingerprint is None:
        raise BadEndpoint(
            f"{endpoint.url} has no fingerprint, and only a pinned broker is dialled",
            "add #sha256:… as `dbg-broker serve` prints it",
        )
    if not endpoint.secure and endpoint.fingerprint is not None:
        raise BadEndpoint(
            f"{endpoint.url} has a fingerprint, but ws:// shows no certificate",
            "write wss://, or leave the fingerprint out",
        )


def check_token(endpoint: Endpoint, token: str) -> None:
    """Refuse to send a lasting token without TLS, and any token without a pin. Raise BadEndpoint."""
    check_endpoint(endpoint)
    if not endpoint.secure and not is_throw_away(token):
        raise BadEndpoint(f"{endpoint.url} is without TLS, and a lasting token must not travel there", WHERE_THEY_ARE)


def client_context() -> ssl.SSLContext:
    """Return what speaks TLS 1.2 or later to whoever answers; :func:`check_certificate` tells then who that is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def check_certificate(endpoint: Endpoint, certificate: bytes | None, wording: str) -> str:
    """Return the fingerprint of the DER certificate that was shown, compared in constant time.

    Raise WrongCertificate if it is not the pinned one, with ``wording``, its ``{shown}`` and ``{pinned}`` filled in.
    """
    if not certificate:
        raise WrongCertificate(endpoint.url, "it shows no certificate")
    shown, pinned = fingerprint_of(certificate), endpoint.fingerprint
    if pinned is None or not same_fingerprint(shown, pinned):
        raise WrongCertificate(endpoint.url, wording.format(shown=shown, pinned=pinned))
    return shown
