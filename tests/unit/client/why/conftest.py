"""Each case that is explained here is explained in placeholders as well: `why` decides the same in any language."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.placeholders import explained_alike


@pytest.fixture(autouse=True, scope="module")
def in_any_language(request: pytest.FixtureRequest) -> Iterator[None]:
    """Explain with placeholders, too, what the tests of a module explain."""
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(request.module, "explain"):
            patch.setattr(request.module, "explain", explained_alike)
        yield
