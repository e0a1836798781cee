"""What follows for one ticket: its lifecycle, consensus, proof and claims."""
