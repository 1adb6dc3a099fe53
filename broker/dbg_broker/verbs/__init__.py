"""What each verb of `dbg-broker` except `run` does. The verbs join the other folders, and have no rules themselves."""
