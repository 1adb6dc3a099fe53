"""How a fork of an interpreter that is still starting becomes that of a script, with nothing of ours in it."""
