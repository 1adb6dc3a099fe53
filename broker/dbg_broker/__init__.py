"""The broker: ranks and terminals dial it; it lists the ranks, says who types where, and passes bytes on unread."""
