"""Lint: what a folder of tickets must keep to, rule by rule."""
