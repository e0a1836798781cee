"""Read what a target returned: numbers by path, structure, the meaning of fields, factors and shares."""
