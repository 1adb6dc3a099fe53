"""The broker: ranks and terminals connect to it. It lists ranks, assigns keyboards to terminals, and relays bytes."""
