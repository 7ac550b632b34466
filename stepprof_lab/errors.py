"""What went wrong, in one line that says what to do next.

The exit codes are a contract:

    StepprofError           2   the input or the arguments cannot be used
    └── NotAvailable        3   a device or a collection that was asked for is not available
    └── AnswerIsNo          4   the answer is no: a check not passed, arms not comparable
"""

from __future__ import annotations


class StepprofError(Exception):
    """The input or the arguments cannot be used.

    Args:
        given: what was given, with the value ("trace 'a.json' exists already").
        expected: what was expected instead ("a name that is not taken").
        todo: what to do next ("choose another --out").
        detail: lines that may follow the one line, such as the traceback of a user's own file.
    """

    exit_code = 2

    def __init__(self, given: str, expected: str, todo: str, *, detail: str | None = None) -> None:
        super().__init__(given, expected, todo)
        self.given = given
        self.expected = expected
        self.todo = todo
        self.detail = detail

    def __str__(self) -> str:
        """One line: given, expected, what to do next; line breaks of the input are shown as spaces."""
        return " ".join(f"{self.given}; expected {self.expected}; {self.todo}".split())


class NotAvailable(StepprofError):
    """A device or a collection that was asked for is not available."""

    exit_code = 3


class AnswerIsNo(StepprofError):
    """The answer is no: a check was not passed, or two arms cannot be compared."""

    exit_code = 4
