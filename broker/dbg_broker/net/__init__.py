"""Sockets and bytes: connections, HTTP, frames, and how much of either waits. Not what messages mean."""
