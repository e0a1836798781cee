"""A ticket's recommended code in the target's place: read, completed, put into a copy of the module's file."""
