"""The terminal's side of `dbg-attach run`: the job's output, sessions where ranks stop, panes of tmux. Starts no job"""
