"""One broker that serves: its parts, its listening sockets, its credentials, and its role as a service."""
