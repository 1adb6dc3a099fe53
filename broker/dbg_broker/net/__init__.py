"""Sockets and bytes: connections, HTTP, frames, and how much of them waits. Not what messages mean."""
