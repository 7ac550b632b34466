"""The interpreter: a trace file in, plain values out; nothing is printed and torch is never imported."""
