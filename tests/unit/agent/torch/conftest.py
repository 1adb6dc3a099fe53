"""Fixtures for what torch tells of a rank."""

from tests.unit.agent.torch.fake_torch import torch

__all__ = ["torch"]
