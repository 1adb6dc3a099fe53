"""What torch's flight recorder tells of collectives, in a process or in a file: read without running it, as records."""
