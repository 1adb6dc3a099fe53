"""``dbg-broker run``: one command from an edit to the prompt.

It holds the broker, starts the command and a terminal beside it, and waits for whichever ends. Only the terminal, which
is ``dbg-attach`` in a process of its own, touches the screen; only a small keeper waits for the command, so that it and
its broker outlive the terminal that they were started from.
"""
