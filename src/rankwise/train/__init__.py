"""One run, pure: spec in, result out."""
