"""Tests of what is told to the command of ``--on-event``."""
