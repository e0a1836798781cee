"""What runs the jobs of a sweep: processes of this machine, or a cluster that a team has already."""
