"""Run the jobs of a sweep: as processes of this machine, on Ray or on Slurm."""
