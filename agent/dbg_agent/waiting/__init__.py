"""Why a rank waits and for how long: held ranks, leases, time limits of others. Not the stop that a rank waits for."""
