"""Sockets and bytes: connections, HTTP, frames, and their queues. This package does not interpret messages."""
