"""Find out why a PyTorch step takes as long as it takes, without fooling yourself."""

__version__ = "0.1.0"

from stepprof_lab.labels import Step, label

__all__ = ["Step", "__version__", "label"]
