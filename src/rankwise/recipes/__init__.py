"""One file a figure: which runs it needs, what they cost, how it is drawn."""
