"""One browser for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chromium import Chromium, chromium_or_skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Start a browser for all tests of a module."""
    with chromium_or_skip() as browser:
        yield browser
