"""Statistics: intervals hold, tests keep their errors."""
