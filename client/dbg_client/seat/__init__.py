"""One viewer of one rank: a pure state machine of its knowledge and decisions, connected to the broker's link."""
