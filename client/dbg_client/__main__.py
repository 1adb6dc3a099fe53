"""``python -m dbg_client`` is ``dbg-attach``."""

from __future__ import annotations

import sys

from dbg_client.command_line.main import main

sys.exit(main())
