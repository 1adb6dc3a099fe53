from __future__ import annotations

import pytest

from dbg_client.adopt.gdb import major_version


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("GNU gdb (Debian 13.1-3) 13.1\nCopyright (C) 2023 Free Software Foundation, Inc.\n", 13),
        ("GNU gdb (Ubuntu 12.1-0ubuntu1~22.04) 12.1\n", 12),
        ("GNU gdb (GDB) Red Hat Enterprise Linux 10.2-13.el9\n", 10),
        ("GNU gdb (GDB) 15.2\n", 15),
        ("something else 99.1\n", 0),
        ("", 0),
    ],
)
def test_the_version_is_read_as_each_distribution_writes_it(said: str, version: int) -> None:
    assert major_version(said) == version
