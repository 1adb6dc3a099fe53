"""One viewer of one rank: a pure state machine, and the seat that connects it to the broker's link."""
