"""Debug Adapter Protocol frontend: shows the ranks of a target in one window of an IDE.

It sends requests and waits for answers as the terminal does, on one connection to the broker.
"""
