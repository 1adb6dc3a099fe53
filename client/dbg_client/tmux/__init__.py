"""A window of tmux with a pane for each rank. What runs in a pane is a `dbg-attach` like any other."""
