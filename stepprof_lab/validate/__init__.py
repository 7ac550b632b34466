"""Outside the profiler: two arms from one starting state, a verdict with its raw values."""

from stepprof_lab.validate.compare import compare
from stepprof_lab.validate.model import Arm, Block, Statistic, Validation
from stepprof_lab.validate.statistics import Conclusion, verdict_from

__all__ = ["Arm", "Block", "Conclusion", "Statistic", "Validation", "compare", "verdict_from"]
