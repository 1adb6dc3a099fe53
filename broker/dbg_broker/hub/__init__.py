"""Where ranks, terminals and guards meet: state, reception, a function for each message. Not what roles may do."""
