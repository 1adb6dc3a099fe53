from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dbg_broker.home.certificate import (
    load_own,
)


def test_a_start_with_a_certificate_does_not_load_the_maker(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from dbg_broker.home.certificate import load_own; "
        "print(load_own(pathlib.Path(sys.argv[1])).fingerprint, 'cryptography' in sys.modules)"
    )
    start = [sys.executable, "-c", program, str(tmp_path)]
    first, second = (subprocess.run(start, capture_output=True, text=True, check=True).stdout for _ in range(2))
    fingerprint = load_own(tmp_path).fingerprint
    assert (first, second) == (f"{fingerprint} True\n", f"{fingerprint} False\n")
