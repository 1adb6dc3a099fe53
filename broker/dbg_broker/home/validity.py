"""What a certificate says of itself: for which hosts it is, and from when until when it is good."""

from __future__ import annotations

import time
from dataclasses import dataclass

DAY_SECONDS = 86400.0

SOON_SECONDS = 30 * DAY_SECONDS
"""Seconds before an end from which on it is warned of: time for an authority that signs by hand, holidays included."""


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
