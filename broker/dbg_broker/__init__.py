"""The broker: ranks and terminals dial it. It lists ranks, gives keyboards to terminals, and relays bytes unread."""
