"""The command line: parse the arguments, call one job, print its result."""
