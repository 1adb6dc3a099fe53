"""A lease is told to end five minutes before, or a tenth of it if it is short."""

from __future__ import annotations

import pytest

from dbg_wire.limits import notice_seconds


@pytest.mark.parametrize(("lease", "notice"), [(28800.0, 300.0), (3000.0, 300.0), (600.0, 60.0), (1.0, 0.1)])
def test_how_long_before_its_end(lease: float, notice: float) -> None:
    assert notice_seconds(lease) == pytest.approx(notice)
