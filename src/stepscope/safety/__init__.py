"""What stands between hostile text and everything else: limits, visible text, secrets."""
