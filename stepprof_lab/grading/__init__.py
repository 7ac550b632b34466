"""Judging exercises: evidence next to the learner's code, a verdict away from it.

An *item* is one thing that a lab asks for. Three functions make it, and each does one thing:

- ``draw`` makes the cases of a check from a random number generator: plain data, nothing of the learner in it;
- ``probe`` runs next to the learner's answer on one case and returns *evidence*: plain data too;
- ``judge`` is a pure function from cases and evidence to a *verdict*: points, what was right, which misconception
  a wrong answer shows, one hint.

In a notebook `check` does all three in one process, with cases that anyone may see. Grading draws other cases from the
course's secret key, runs the probe in a sandbox, and judges in a process that never imported the learner's code.
"""

from __future__ import annotations

from stepprof_lab.grading.check import begin, check
from stepprof_lab.grading.model import Verdict

__all__ = ["Verdict", "begin", "check"]
