"""OTLP, in and out: spans as JSON and as protobuf."""
