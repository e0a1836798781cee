"""What a ticket claims, run before and after its fix."""
