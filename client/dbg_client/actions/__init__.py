"""What `dbg-attach` does to any set of ranks without attaching."""
