"""The rank: its stop from begin to end, questions, holds and leases. It knows debuggers only by their base class."""
