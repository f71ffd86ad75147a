"""atif."""
