"""Tests of ``dbg_client.web``."""
