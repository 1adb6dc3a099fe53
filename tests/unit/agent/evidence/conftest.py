"""Fixtures for what a rank tells."""

from tests.unit.agent.evidence.fake_torch import torch

__all__ = ["torch"]
