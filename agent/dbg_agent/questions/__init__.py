"""Questions of terminals to one rank, and the rank's answers."""
