"""A ticket's recommended fixes, tried in the target's place."""
