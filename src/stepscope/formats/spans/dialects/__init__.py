"""What the attributes of spans mean: one module for each convention of names."""
