"""The command line: parse, call one workflow or store verb, print."""
