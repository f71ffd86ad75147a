"""openhands."""
