"""Rewrites: changes of a target's own statements, each for one pattern, as transformers of libcst's syntax trees."""
