"""Reader of torch's flight recorder, in a process or in a file. It turns entries into records and runs no code."""
