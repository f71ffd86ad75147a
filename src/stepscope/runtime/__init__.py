"""What the rooms run on: functions in other processes, and SQLite files."""
