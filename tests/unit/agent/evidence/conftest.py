"""Fixtures for what a rank reports."""

from tests.unit.agent.torch.fake_torch import torch

__all__ = ["torch"]
