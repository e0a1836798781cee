"""Python files as they are read: modules, names, imports, statements."""
