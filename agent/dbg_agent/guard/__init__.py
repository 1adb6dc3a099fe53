"""The guard: a helper process per rank that reports to the broker when the rank is stuck or dead.

Only `rank_side` runs inside the rank.
"""
