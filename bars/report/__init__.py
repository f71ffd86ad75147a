"""Reports: the size of pages and the speed of the server."""
