"""Where ranks, terminals and guards meet: state, reception, a function for each message. No rules of who may what."""
