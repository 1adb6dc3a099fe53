"""A thin face of the client: the ranks of a target in one window of an IDE, by the Debug Adapter Protocol.

Everything is asked and waited for as the terminal does, on one link to the broker.
"""
