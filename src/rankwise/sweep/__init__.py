"""Many runs: plan them, hand them to an engine, keep what comes back. Importing this imports nothing else."""
