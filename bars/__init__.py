"""The full-size checks of `make bars`: each prints its table and fails when its bar is missed."""
