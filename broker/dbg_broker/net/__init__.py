"""Sockets and bytes: connections, HTTP, frames, and their queues. No meaning of messages."""
