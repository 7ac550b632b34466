"""Outside the profiler: two arms from one starting state, a verdict with its raw values."""
