"""Speed as ratios: everything compared is timed in one process, in turns, on the same inputs."""
