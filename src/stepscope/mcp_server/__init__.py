"""The tools of `stepscope mcp`: a store read by coding agents, over the Model Context Protocol."""
