"""The store and the receiver through kills."""
