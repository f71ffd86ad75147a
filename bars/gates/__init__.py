"""Gates: false alarms, power, speed."""
