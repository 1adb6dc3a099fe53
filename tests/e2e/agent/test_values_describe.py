"""Equal values have equal digests in every rank, any difference shows, and no value takes more than its share.

Tensors and arrays are in ``tests/full/torch/test_values_torch.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys


def test_ranks_with_other_hash_seeds_agree() -> None:
    code = (
        "from dbg_agent.values.describe import describe; names = [chr(97 + n) * 3 for n in range(26)]; "
        "told = describe([set(names), {'in': frozenset(names)}], stats=False, seconds=60); "
        "print(told.digest, told.text)"
    )
    ranks = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split(maxsplit=1)
        for seed in ("1", "2")
    ]
    assert ranks[0][0] == ranks[1][0]
    assert ranks[0][1] != ranks[1][1]
