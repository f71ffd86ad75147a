"""What is timed, one file a competitor; each runs in the environment of the tool that it times.

Nothing here but `ours` may import stepscope, and nothing at module level but the standard library
and the one tool.
"""
