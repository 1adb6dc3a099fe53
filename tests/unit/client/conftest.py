from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.environment import clean_environment


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a terminal whose user has set up nothing."""
    return clean_environment(os.environ, tmp_path)
