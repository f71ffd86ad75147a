"""Can the instrument be trusted: the noise of judges, measured from what they scored twice."""
