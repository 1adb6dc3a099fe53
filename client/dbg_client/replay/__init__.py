"""The replay of a recording: its file, what is shown when, and the terminal in which it plays."""
