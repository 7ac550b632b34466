"""The whole way of working on a small real training loop."""
