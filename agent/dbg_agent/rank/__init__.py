"""The rank: its stop, questions, holds and leases. It knows debuggers only by their base class."""
