"""Reading the frames and the objects of a program that runs on, without running its code."""
