"""What each verb of `dbg-broker` does, but for `run`."""
