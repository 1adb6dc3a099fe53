"""Attacks on a real broker, each with the figure of what others felt meanwhile.

`echo.py` types a key at a rank and waits for its echo, again and again, without and with an attack. `attacker.py` runs
one attack in a process of its own, as it would come from another host.
"""
