"""The terminal's side of `dbg-broker run`: the job's output, and a session wherever a rank stops. Starts no job."""
