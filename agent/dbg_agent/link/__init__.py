"""The connection of a rank to the broker, and the queue of messages to send."""
