"""``python -m dbg_client`` is ``dbg-attach``."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
