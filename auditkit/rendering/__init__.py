"""Model to text and pictures."""
