"""One broker that serves: what it is made of, where it listens, its credentials, and its place as a service."""
