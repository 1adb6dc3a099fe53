"""Questions and orders to any set of ranks, for the command and a session's command line. terminal/ has sessions."""
