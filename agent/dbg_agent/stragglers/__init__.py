"""A rank samples itself for some seconds: when it comes to collectives, where it is, and what it lacks."""
