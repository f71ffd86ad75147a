"""Tracing backends: runs pulled from LangSmith, Langfuse, Phoenix and MLflow, and sent to them."""

from stepscope.backends.pull import pull
from stepscope.backends.send import Sent, send

__all__ = ["Sent", "pull", "send"]
