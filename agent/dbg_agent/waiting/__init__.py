"""Why a rank waits and for how long: held ranks, leases, time limits of others. Not the stop that they wait for."""
