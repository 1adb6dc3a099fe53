"""The rank: its stop from begin to end, questions, holds and leases; it knows debuggers by their base class alone."""
