"""nbgrader's configuration for this course: ``nbgrader generate_assignment 03-nested-sums`` and so on, from here."""

from stepprof_lab.grading.build import STUB

c = get_config()  # noqa: F821 - nbgrader gives it

c.CourseDirectory.course_id = "stepprof_lab"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.ClearSolutions.code_stub = {"python": STUB}
# A cell that an editor lost is put back instead of losing its points silently.
c.OverwriteCells.add_missing_cells = True
