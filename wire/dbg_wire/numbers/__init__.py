"""Recorded numbers of a training: the files of a run, and the comparison of two runs. Agent and client use both."""
