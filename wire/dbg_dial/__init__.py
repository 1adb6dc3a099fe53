"""Discovery of the broker and connections to it, for all roles. Independent of roles and messages."""
