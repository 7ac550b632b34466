"""One module a lab: its probes and judges. They hold no secret: hidden cases come from the course's key."""
