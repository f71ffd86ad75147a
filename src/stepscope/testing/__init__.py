"""For tests of agents: the pytest plugin, loaded by its entry point (`pytest_plugin`)."""
