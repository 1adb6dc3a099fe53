"""Faces that are no terminal: an IDE, a coding agent, a browser. Not what they share: that is in `api` and below."""
