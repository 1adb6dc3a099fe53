"""Watches over the numbers of a training with torch; loaded only in a rank that watches.

Hooks of torch's modules and optimizers pass each tensor to the watches. A watch calls no collective, and changes no
tensor and no random state.
"""
