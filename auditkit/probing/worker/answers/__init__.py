"""What a target returned: its numbers by path, its structure, what its fields mean, its factors and shares."""
