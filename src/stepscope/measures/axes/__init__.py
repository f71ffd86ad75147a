"""The evidence judge: five axes answered by rules that cite what they saw, or say uncertain."""
