"""The tests, a package: a `tests` that something else installed must not stand in its place."""
