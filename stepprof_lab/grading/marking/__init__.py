"""Grading what was handed in: learners' code runs in a sandbox, verdicts are made outside, one writer keeps the grades.

`submissions` finds what was handed in, and `matching` puts its cells into the places of the release; `sandbox` runs a
command where it can do no harm; `border` lets a learner's cells run in there (`inside`, over `wire`), asks them for
evidence and has the judges, which never import their code, make the verdicts; `result` is what a worker leaves behind,
one file a submission; `gradebook` is the one writer of nbgrader's gradebook (with `release`: which cell is for which
item, and `database`: locks and transactions); `feedback` is what a learner gets back, `autograded` what a person reads
in nbgrader's form grader, `table` what a learning management system takes.

`command` is the verb and `run` one run of it; `job` is what the workers (`work`) are handed, `local` and `slurm` are
where they run.
"""
