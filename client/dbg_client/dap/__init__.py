"""Debug Adapter Protocol frontend: shows the ranks of a target in one window of an IDE.

Like a terminal, it sends questions and waits for answers over one connection to the broker.
"""
