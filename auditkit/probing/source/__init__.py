"""Read Python files: modules, names, imports, statements."""
