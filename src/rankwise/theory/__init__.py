"""What can be computed instead of quoted. Every module here loads with numpy and scipy alone."""
