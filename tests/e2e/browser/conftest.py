"""The browser of the full tier."""

from __future__ import annotations

from tests.full.browser.conftest import chromium

__all__ = ["chromium"]
