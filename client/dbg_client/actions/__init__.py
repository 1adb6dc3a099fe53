"""What asks or moves any set of ranks, for the command and a session's command line. Sessions are terminal/'s."""
