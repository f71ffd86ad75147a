"""Pages as pure values: a report, a run, a comparison in; what a template lays out comes out."""
