"""Reading: every format, every byte, bounded memory."""
