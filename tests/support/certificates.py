"""Certificates of an authority of a test, as files that `dbg-broker serve` takes, and those of servers in a test."""

from __future__ import annotations

import functools
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from dbg_dial.endpoint import fingerprint_of


class Authority:
    """An authority, whose own certificate is the file ``path`` in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.path = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.path))

    def issue(self, name: str, *hosts: str, days: float | None = None, from_days: float = -1.0) -> tuple[str, ...]:
        """Return the options by which a broker serves a new certificate for these hosts, good for ``days`` from now.

        It begins ``from_days`` days from now; without ``days`` it ends in a distant future.
        """
        now = datetime.now(UTC)
        end = None if days is None else now + timedelta(days=days)
        leaf = self._ca.issue_cert(*hosts, not_before=now + timedelta(days=from_days), not_after=end)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
        key.write_bytes(leaf.private_key_pem.bytes())
        key.chmod(0o600)
        return "--certificate", str(certificate), "--key", str(key)


def certified() -> tuple[ssl.SSLContext, str]:
    """Return a server's TLS context and its certificate's fingerprint."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    der = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())
    return context, fingerprint_of(der)


@functools.cache
def shared_certificate() -> tuple[ssl.SSLContext, str]:
    """Return the TLS context of all servers of a process that need no certificate of their own, and its fingerprint."""
    return certified()
