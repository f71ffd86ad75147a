"""Nothing in `workers` is ours to import: it runs in the environments of the servers."""

collect_ignore_glob = ["workers/*"]
