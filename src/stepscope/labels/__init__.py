"""People's labels: what they are asked, the queues they are asked from, and sessions at them."""
