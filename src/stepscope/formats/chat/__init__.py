"""Chats of OpenAI, Anthropic and LangChain: messages, items and recorded exchanges as runs."""
