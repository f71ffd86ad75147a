"""Cases: what runs are measured against, in files that people write or runs are promoted to."""
