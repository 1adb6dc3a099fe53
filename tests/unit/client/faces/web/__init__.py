"""Tests of ``dbg_client.faces.web``."""
