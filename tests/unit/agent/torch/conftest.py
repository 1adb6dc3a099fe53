"""Fixtures for what torch reports of a rank."""

from tests.unit.agent.torch.fake_torch import torch

__all__ = ["torch"]
