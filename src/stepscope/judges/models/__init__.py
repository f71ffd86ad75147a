"""Models that judges ask: what is configured, how each is asked, what it costs, how long to wait.

Nothing here knows what a judge is asked about or believes a reply. The SDKs are imported when a
model is opened, never before.
"""
