from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.environment import clean_environment


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a terminal whose user has set up nothing."""
    return clean_environment(os.environ, tmp_path)


@pytest.fixture(autouse=sys.version_info < (3, 11))
def collected() -> Iterator[None]:
    """Collect the sockets that Python 3.10 leaves open when a TLS handshake fails."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
