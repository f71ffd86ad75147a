"""Google ADK's sessions, eval sets and eval results."""
