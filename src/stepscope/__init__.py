"""stepscope: an instrument for the path of an AI agent, not only its destination."""

__version__ = "0.1.0"
