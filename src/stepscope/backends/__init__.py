"""Tracing backends: runs pulled from LangSmith, Langfuse, Phoenix and MLflow, and sent to them."""

from stepscope.backends.pulling import pull
from stepscope.backends.sending import Sent, send
from stepscope.backends.target import Target, is_target

__all__ = ["Sent", "Target", "is_target", "pull", "send"]
