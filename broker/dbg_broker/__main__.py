"""Run ``dbg-broker`` as ``python -m dbg_broker``."""

from __future__ import annotations

import sys

from dbg_broker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
