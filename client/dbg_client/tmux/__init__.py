"""A window of tmux with a pane for each rank."""
