"""Find out why a PyTorch step takes as long as it takes, without fooling yourself."""

__version__ = "0.1.0"
