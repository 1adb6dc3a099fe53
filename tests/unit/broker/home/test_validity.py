"""What a certificate says of itself, and ends as people read them."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest

from dbg_broker.home.certificate import DAY_SECONDS, SOON_SECONDS, distance, is_soon, load_own, read_validity, until
from tests.support.certificates import Authority


def test_names_authority_and_dates_are_read(tmp_path: Path) -> None:
    options = Authority(tmp_path).issue("own", "login1.example", "10.0.0.1", days=12, from_days=-3)
    found = read_validity(ssl.PEM_cert_to_DER_cert(Path(options[1]).read_text()))
    assert found.names == ("login1.example", "10.0.0.1")
    assert found.issuer != found.subject
    now = time.time()
    assert abs(found.begins - (now - 3 * DAY_SECONDS)) < 60
    assert abs(found.ends - (now + 12 * DAY_SECONDS)) < 60


def test_a_brokers_own_certificate_signs_itself(tmp_path: Path) -> None:
    found = read_validity(load_own(tmp_path).certificate)
    assert (found.issuer, found.names) == (found.subject, ("dbg-broker",))


def test_bytes_that_are_no_certificate_are_refused() -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_validity(b"rubbish")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (12.5 * DAY_SECONDS, "in 12 days"),
        (30 * 3600, "in 30 hours"),
        (90 * 60, "in 90 minutes"),
        (30, "in 0 minutes"),
        (-30, "0 minutes ago"),
        (-3.1 * DAY_SECONDS, "3 days ago"),
    ],
)
def test_a_distance_in_words(seconds: float, words: str) -> None:
    assert distance(seconds) == words


def test_an_end_is_soon_for_thirty_days_before_it_and_after_it() -> None:
    now = 1e9
    lefts = (SOON_SECONDS + 1, SOON_SECONDS - 1, 0, -1)
    assert [is_soon(now + left, now) for left in lefts] == [False, True, True, True]
    assert until(now + DAY_SECONDS * 3, now).startswith("until 2001-")
    assert until(now - DAY_SECONDS * 3, now).startswith("expired 2001-")
