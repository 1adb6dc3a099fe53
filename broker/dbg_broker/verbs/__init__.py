"""What each verb of `dbg-broker` does, but for `run`. It joins what the other folders have, and has no rules itself."""
