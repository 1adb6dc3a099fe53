"""``python -m dbg_client`` is ``dbg-attach``."""

from __future__ import annotations

import sys

from dbg_client.cli.main import main

sys.exit(main())
