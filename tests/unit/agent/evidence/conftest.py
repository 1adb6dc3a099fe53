"""Fixtures for what a rank tells."""

from tests.unit.agent.torch.fake_torch import torch

__all__ = ["torch"]
