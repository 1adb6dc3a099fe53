"""A broker, a terminal and a rank that live long among 200 ranks that come and go: at the end nothing has grown.

``python -m tests.full.soak`` (``make soak``) prints the table; CI runs three minutes of it beside the tests.
"""
