"""What the course's pages are made of, beside their Markdown: lessons' traces, their numbers and their questions.

`scenes` (the running example, as a constructed trace for each lesson, and the numbers that a lesson tells of it),
`questions` (asked and answered in a page), `hooks` (the one place that knows MkDocs) and `theme/` (the one place that
knows the theme). A page itself is plain Markdown with a few ``{{ ... }}``, which `hooks` lists.
"""
