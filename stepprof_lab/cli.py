"""The command ``stepprof``: one function a verb, and no logic of its own.

Results go to stdout, progress and notices to stderr, an error is one line on stderr. Everything that takes time to
import is imported by the verb that needs it, so that ``--help`` answers at once and works without torch.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from stepprof_lab import __version__
from stepprof_lab.errors import AnswerIsNo, StepprofError
from stepprof_lab.terminal import (
    Terminated,
    absolute,
    ended_by_signal,
    notice,
    print_json,
    progress_console,
    results,
    shown,
    users_code,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepprof_lab.validate.model import Validation

INTERRUPTED = 130
"""What a shell expects of a command that Ctrl-C ended."""

TERMINATED = 143
"""What a shell expects of a command that SIGTERM ended."""

BUG = 70
"""Our own mistake (EX_SOFTWARE of sysexits.h): none of the documented codes."""

DEVICES = "auto, cpu, gpu, cuda, rocm or practice (simulated)"


class OneLine(click.Group):
    """Verbs in the order of the way of working, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order in which they were added."""
        return list(self.commands)


def usual(*, json: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that every verb has."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")(
            function
        )
        function = click.option(
            "--plain",
            is_flag=True,
            default=lambda: os.environ.get("ACCESSIBLE", "") not in {"", "0"},
            help="Lines of 'name: value', no boxes, no redrawn progress (also: ACCESSIBLE=1).",
        )(function)
        if json:
            function = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")(function)
        return function

    return add


@click.group(cls=OneLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stepprof", message="%(prog)s %(version)s")
def stepprof() -> None:
    """Find out why a PyTorch step takes as long as it takes, without fooling yourself.

    Ask (new), capture four labelled steps (profile), interpret the trace (read), change one thing, validate outside
    the profiler (validate). Or see it all at once: demo.
    """


# --- small things that several verbs share --------------------------------------------------------------------------


def fresh(what: str, *paths: Path | None) -> None:
    """Refuse names that are taken or cannot be written before the long work begins, not after it."""
    from stepprof_lab.files import demand_new_name

    given = [path.absolute() for path in paths if path is not None]
    if len(set(given)) < len(given):
        raise StepprofError(f"{what} {str(given[0])!r} twice", "different names", "choose another name for one of them")
    for path in given:
        demand_new_name(path, what)


class Share(click.ParamType[float]):
    """A share: ``1%`` or ``0.01``."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a number from 0 to 1."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            self.fail(f"{value!r} is no share; expected one like 1% or 0.01", param, ctx)
        if not 0 <= share < 1:
            self.fail(f"{value!r} is outside 0 to 100 %; expected a share like 1%", param, ctx)
        return share


class Seconds(click.ParamType[float]):
    """A duration: ``60``, ``60s`` or ``2m``."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The duration in seconds."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        factor = {"s": 1.0, "m": 60.0}.get(text[-1:])
        try:
            seconds = float(text) if factor is None else float(text[:-1]) * factor
        except ValueError:
            self.fail(f"{value!r} is no duration; expected one like 60s or 2m", param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail(f"{value!r} is no duration above zero; expected one like 60s or 2m", param, ctx)
        return seconds


PATH = click.Path(path_type=Path)


# --- the verbs ------------------------------------------------------------------------------------------------------


@stepprof.command(short_help="What can be measured here, and what stands in the way.")
@click.option("--require", type=click.Choice(["gpu"]), help="Exit 3 where GPU activity cannot be collected.")
@click.option("--probe/--no-probe", default=True, help="Make a probe capture in a child process (default: yes).")
@usual(json=True)
def doctor(require: Literal["gpu"] | None, probe: bool, as_json: bool, plain: bool) -> None:
    """What can be measured on this machine, and what stands in the way."""
    from stepprof_lab import doctor as room

    diagnosis = room.examine(require, probe=probe)
    if as_json:
        print_json(diagnosis)
    else:
        from stepprof_lab.report.text import show_diagnosis

        show_diagnosis(diagnosis, results(), plain=plain)
    if require == "gpu":
        room.demand_gpu(diagnosis)


@stepprof.command(short_help="Interpret a trace of torch.profiler.")
@click.argument("traces", type=PATH, nargs=-1, required=True, metavar="TRACE...")
@click.option("--compare", "other", type=PATH, metavar="OTHER", help="What changed from TRACE to OTHER; no verdict.")
@click.option("--html", type=PATH, metavar="FILE", help="Write a self-contained page.")
@click.option("--svg", type=PATH, metavar="FILE", help="Write the timeline as a picture.")
@click.option("--brief", is_flag=True, help="A few lines of Markdown to share: redacted, at most 60 lines.")
@usual(json=True)
def read(
    traces: tuple[Path, ...],
    other: Path | None,
    html: Path | None,
    svg: Path | None,
    brief: bool,
    as_json: bool,
    plain: bool,
) -> None:
    """Interpret a trace of torch.profiler (.json or .json.gz), ours or anyone's.

    Where the record of a capture lies beside the trace, its question heads the report. Works without torch.
    Several traces are the ranks of one job: one of each rank, in any order.
    """
    from stepprof_lab import record as records

    fresh("report", html, svg)
    if len(traces) > 1:
        demand(not brief and other is None, f"{len(traces)} traces with --compare or --brief", "one trace")
        read_ranks(traces, html, svg, as_json=as_json, plain=plain)
        return
    (trace,) = traces
    if brief:
        read_briefly(trace, alone=other is None and html is None and svg is None and not as_json)
        return
    if other is not None:
        read_beside(trace, other, html, svg, as_json=as_json, plain=plain)
        return
    interpretation, record = records.read(trace)
    write_pictures(html, svg, interpretation=interpretation, record=record)
    if as_json:
        print_json(interpretation.analysis)
    else:
        from stepprof_lab.report.text import show_analysis

        show_analysis(interpretation.analysis, results(), record=record, plain=plain)


def demand(holds: bool, given: str, expected: str) -> None:
    """Refuse forms of a verb that do not go together."""
    if not holds:
        raise StepprofError(given, expected, "run it once for each")


def read_ranks(traces: Sequence[Path], html: Path | None, svg: Path | None, *, as_json: bool, plain: bool) -> None:
    """Several ranks of one job beside each other."""
    from stepprof_lab import job
    from stepprof_lab.files import write_new

    found = job.read(traces, picture=html is not None or svg is not None)
    if svg is not None and found.timeline is not None:
        from stepprof_lab.report.svg import timeline_svg

        write_new(svg, timeline_svg(found.timeline).encode(), "picture")
        notice(f"picture: {shown(svg)}")
    if html is not None:
        from stepprof_lab.report.ranks_page import page

        write_new(html, page(found).encode(), "report")
        notice(f"report: {shown(html)}")
    if as_json:
        print_json(found.ranks)
    else:
        from stepprof_lab.report.text import show_ranks

        show_ranks(found.ranks, results(), plain=plain)


def read_briefly(trace: Path, *, alone: bool) -> None:
    """A reading to share: made from a copy that gives nothing away."""
    from stepprof_lab import sharing
    from stepprof_lab.report.brief import brief

    if not alone:
        raise StepprofError("--brief with another form", "--brief alone", "run read twice")
    click.echo(brief(*sharing.read_shareable(trace)), nl=False)


def read_beside(trace: Path, other: Path, html: Path | None, svg: Path | None, *, as_json: bool, plain: bool) -> None:
    """What changed from one trace to another; a page or a picture is of the first, the page with the comparison."""
    from stepprof_lab import pairing
    from stepprof_lab import record as records

    difference = pairing.compare(trace, other)
    if html is not None or svg is not None:
        interpretation, record = records.read(trace)
        write_pictures(html, svg, interpretation=interpretation, record=record, difference=difference)
    if as_json:
        print_json(difference)
    else:
        from stepprof_lab.report.text import show_difference

        show_difference(difference, results(), plain=plain)


def write_pictures(html: Path | None, svg: Path | None, **parts: Any) -> None:
    """Write the page and the timeline that were asked for."""
    from stepprof_lab.files import write_new

    if svg is not None:
        from stepprof_lab.report.svg import timeline_svg

        interpretation = parts["interpretation"]
        picture = timeline_svg(interpretation.timeline, findings=interpretation.analysis.findings)
        write_new(svg, picture.encode(), "picture")
        notice(f"picture: {shown(svg)}")
    if html is not None:
        from stepprof_lab.report.html import page

        write_new(html, page(**parts).encode(), "report")
        notice(f"report: {shown(html)}")


def taking_questions(function: Callable[..., Any]) -> Callable[..., Any]:
    """A flag for each question of `stepprof_lab.questions`, so that what can be asked can be given."""
    from stepprof_lab.questions import QUESTIONS

    for question in reversed(QUESTIONS):
        kind: Any = click.Choice(question.choices) if question.choices else None
        if question.answers == "yes or no":
            function = click.option(question.flag, question.name, default=None, help=question.help)(function)
        else:
            function = click.option(question.flag, question.name, type=kind, help=question.help)(function)
    return function


@stepprof.command(short_help="Ask the one question, and write it down as a scenario.")
@click.argument("scenario", type=PATH)
@click.option("--workload", metavar="FILE[:NAME]", help="Run one step of it and observe what can be observed.")
@click.option("--device", default="auto", help=f"Where to run it: {DEVICES}.")
@taking_questions
@usual(json=True)
def new(scenario: Path, workload: str | None, device: str, as_json: bool, plain: bool, **flags: Any) -> None:
    """Write SCENARIO, a TOML file with one question, the step's boundary, the conditions and the unit.

    What no flag gives is asked at the terminal; what a workload shows is observed and marked so.
    """
    from stepprof_lab import questions
    from stepprof_lab import scenario as room

    fresh("scenario", scenario)
    given = {name: as_answer(value) for name, value in flags.items() if value is not None}
    observed = observe(workload, device) if workload else {}
    ask = asking(plain=plain) if sys.stdin.isatty() else None
    answered = questions.answer(given, ask, observed=observed)
    room.save(answered, scenario)
    if as_json:
        print_json(answered)
        return
    click.echo(f"scenario: {scenario}")
    click.echo(f"next: stepprof profile {shlex.join([str(scenario), workload or 'FILE'])}")


def as_answer(value: Any) -> str:
    """What a flag gave, as the text that the same question takes at a terminal."""
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def observe(spec: str, device: str) -> dict[str, str]:
    """The conditions that one step of a workload shows, as answers."""
    from stepprof_lab import devices, questions, workload
    from stepprof_lab.capturing.loaders import LoaderWatch, watching_loaders
    from stepprof_lab.capturing.observe import observing

    watch = LoaderWatch()
    with users_code(), watching_loaders(watch, lambda: None):
        step = workload.build(spec, devices.choose(device).torch_device)
        with observing(step) as seen:
            workload.run_step(step, 0)
    return questions.from_observation({**seen, "loader_workers": watch.workers})


def asking(*, plain: bool) -> Callable[[Any, str | None], str]:
    """A function that asks at the terminal; the reason why an answer was refused stands above the next try."""

    def ask(question: Any, reason: str | None) -> str:
        if reason:
            notice(reason if plain else click.style(reason, fg="yellow"))
        hints = ", ".join(question.choices) or "; ".join(f"for example: {one}" for one in question.examples[:1])
        if question.answers == "yes or no":
            hints = "yes or no"
        if not question.required and not question.default:
            hints = f"{hints}; Enter to leave it open" if hints else "Enter to leave it open"
        text = f"{question.asks} ({hints})" if hints else question.asks
        return str(click.prompt(text, default=question.default or "", show_default=bool(question.default), err=True))

    return ask


@stepprof.command(short_help="Capture four labelled steps of a workload.")
@click.argument("scenario", type=PATH)
@click.argument("workload", metavar="FILE[:NAME]")
@click.option("--device", default="auto", help=f"Where to run it: {DEVICES} (default: auto, the best one present).")
@click.option("--out", type=PATH, metavar="DIR", help="Where trace and record go (default: a new one below runs/).")
@click.option("--ranks", metavar="0,1", help="Under torchrun: the ranks that are traced (default: all). All run.")
@click.option("--shapes", is_flag=True, help="Record the operators' shapes. Takes time inside the window.")
@click.option("--memory", is_flag=True, help="Record allocations. Takes time inside the window.")
@click.option("--stacks", is_flag=True, help="Record Python's stack. Takes much time inside the window.")
@click.option("--html", type=PATH, metavar="FILE", help="Write a self-contained page.")
@usual(json=True)
def profile(
    scenario: Path,
    workload: str,
    device: str,
    out: Path | None,
    ranks: str | None,
    html: Path | None,
    as_json: bool,
    plain: bool,
    **options: bool,
) -> None:
    """Capture four labelled steps of a workload: wait 1, warm-up 1, active 2, once.

    FILE has a function build(device) that returns a Step; FILE:NAME names another one. Unprofiled steps before the
    window are timed by the host clock.
    """
    from stepprof_lab import record as records
    from stepprof_lab import scenario as room
    from stepprof_lab.capturing import profile_workload
    from stepprof_lab.files import run_directory
    from stepprof_lab.report.progress import drawn

    fresh("report", html)
    traced = None if ranks is None else rank_numbers(ranks)
    asked, html = room.load(scenario), absolute(html)
    where = (out or run_directory(scenario.stem)).absolute()
    with drawn(progress_console(), plain=plain) as progress, users_code():
        captured = profile_workload(
            asked,
            workload,
            device=device,
            out=where,
            record_shapes=options["shapes"],
            profile_memory=options["memory"],
            with_stack=options["stacks"],
            traced_ranks=traced,
            progress=progress,
        )
    # Of several ranks that are traced one speaks, or their reports would run into each other.
    if captured is None or not speaks_for_all(captured.record.rank, traced):
        return
    interpretation, record = records.read(captured.trace, origin="live")
    write_pictures(html, None, interpretation=interpretation, record=record)
    if as_json:
        print_json(records.Profiled(trace=str(shown(captured.trace)), record=captured.record))
        return
    from stepprof_lab.report.text import show_analysis, show_captured

    show_captured(captured.record, console := results(), trace=shown(captured.trace), plain=plain)
    show_analysis(interpretation.analysis, console, plain=plain)


def speaks_for_all(rank: int | None, traced: list[int] | None) -> bool:
    """Whether this rank prints: alone, or the lowest of those that are traced."""
    return rank is None or rank == min(traced or [0])


def rank_numbers(text: str) -> list[int]:
    """``0,3`` as numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise StepprofError(
            f"--ranks {text}", "numbers with commas between them", "say --ranks 0 or --ranks 0,1"
        ) from None


MEASURING = ("device", "replicates", "budget", "margin", "calibrate", "calibrate_budget", "region")
"""The options of `validate` that say how it is measured."""


@stepprof.command(short_help="Compare two workloads outside the profiler.")
@click.argument("scenario", type=PATH, required=False)
@click.argument("before", required=False)
@click.argument("after", required=False)
@click.option("--device", default="auto", help=f"Where to run both: {DEVICES} (default: auto, the best one present).")
@click.option("--replicates", default=8, show_default=True, type=click.IntRange(2), help="Fresh pairs of arms.")
@click.option("--budget", default="60s", show_default=True, type=Seconds(), help="Time for all of it.")
@click.option("--margin", default="1%", show_default=True, type=Share(), help="Smaller differences are none.")
@click.option("--region", metavar="LABEL", help="Time this label by itself too, in a run of its own.")
@click.option("--calibrate", is_flag=True, help="Then run BEFORE against itself: how often is that a difference?")
@click.option("--calibrate-budget", type=Seconds(), help="Time for that alone (default: as --budget).")
@click.option("--resume", "resumed", type=PATH, metavar="FILE", help="Go on with a run that was interrupted.")
@click.option("--from", "again", type=PATH, metavar="FILE", help="Show a kept result again; measure nothing.")
@click.option("--against", type=PATH, metavar="FILE", help="Put another machine's kept result beside this one.")
@click.option("--out", type=PATH, metavar="FILE", help="Where the raw values go (default: a new file below runs/).")
@click.option("--html", type=PATH, metavar="FILE", help="Write a self-contained page.")
@usual(json=True)
def validate(
    again: Path | None, against: Path | None, html: Path | None, as_json: bool, plain: bool, **asked: Any
) -> None:
    """Compare two workloads outside the profiler: BEFORE and AFTER are FILE or FILE:NAME.

    Both start from the same state and must give the same outputs. Exit 4 where they cannot be compared.
    What an interrupted run has measured is kept beside its result, and --resume goes on with it.
    """
    from stepprof_lab.validate import keep
    from stepprof_lab.validate.against import beside

    html, name, kept, partial, refused = absolute(html), "this result", None, None, None
    other = None if against is None else keep.again(against)
    if again is None:
        validation, kept, partial = measure(html=html, plain=plain, **asked)
    else:
        refuse_beside("--from", "scenario", "before", "after", "resumed", "out", *MEASURING)
        fresh("report", html)
        validation, name = keep.again(again), str(again)
    with showing_first(lambda: show_verdict(validation, as_json=as_json, plain=plain)):
        if kept is not None:
            keep.keep(validation, kept, instead_of=partial)
            notice(f"raw values: {shown(kept)}")
        if other is not None:
            validation, refused = beside(validation, other, (name, str(against)))
        write_pictures(html, None, validation=validation)
    if refused is not None:
        raise refused
    if validation.verdict == "not comparable":
        raise AnswerIsNo(
            f"two arms that are not comparable ({validation.reasons[0]})",
            "the same start and the same outputs",
            "mend the arm, or state a tolerance with its reason in the scenario's [outputs]",
        )


def measure(
    *,
    scenario: Path | None,
    before: str | None,
    after: str | None,
    device: str,
    out: Path | None,
    html: Path | None,
    resumed: Path | None,
    plain: bool,
    **options: Any,
) -> tuple[Validation, Path, Path]:
    """Measure two arms; gives the result, where it goes, and where what was measured so far was kept meanwhile."""
    from stepprof_lab import scenario as room
    from stepprof_lab.files import run_directory
    from stepprof_lab.report.progress import drawn
    from stepprof_lab.validate import compare, resume

    if scenario is None or before is None or after is None:
        raise click.UsageError("SCENARIO, BEFORE and AFTER are needed, or --from FILE", click.get_current_context())
    asked, resumed = room.load(scenario), absolute(resumed)
    if resumed is None:
        kept = (out or run_directory(scenario.stem) / "validation.json").absolute()
        fixed = resume.options_of(**options)
        resume.demand_none(resume.beside(kept))
    else:
        refuse_beside("--resume", *(name for name in MEASURING if name != "device"))
        kept = (out or resume.result_of(resumed)).absolute()
        fixed = resume.load(resumed).asked.options
    partial = resumed or resume.beside(kept)
    fresh("result", html, kept)
    command = [
        "stepprof",
        "validate",
        str(scenario),
        before,
        after,
        "--device",
        device,
        "--resume",
        str(shown(partial)),
    ]
    with (
        saying_what_is_left(partial, shlex.join(command)),
        ended_by_signal(),
        drawn(progress_console(), plain=plain) as progress,
        users_code(),
    ):
        validation = compare(
            before,
            after,
            asked,
            device=device,
            replicates=fixed.replicates,
            budget_s=fixed.budget_s,
            margin=fixed.margin,
            output_steps=fixed.output_steps,
            calibrate_s=fixed.calibrate_s,
            region=fixed.region,
            partial=partial,
            resumed=resumed,
            progress=progress,
        )
    return validation, kept, partial


def refuse_beside(option: str, *names: str) -> None:
    """Refuse arguments that say nothing beside an option, where they were given."""
    context = click.get_current_context()
    given = click.core.ParameterSource.COMMANDLINE
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in names and context.get_parameter_source(name) == given:
            told = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
            raise StepprofError(f"{told} with {option}", f"{option} without it", f"leave {told} out")


@contextlib.contextmanager
def saying_what_is_left(partial: Path, command: str) -> Iterator[None]:
    """Where a run ends before its end, name the file with what was measured so far, and how to go on."""
    try:
        yield
    except BaseException:
        if partial.exists():
            notice(f"measured so far: {shown(partial)}")
            notice(f"go on with: {command}")
        raise


@contextlib.contextmanager
def showing_first(show: Callable[[], None]) -> Iterator[None]:
    """Keep results, then show them; where they cannot be kept they are shown all the same, above the error."""
    try:
        yield
    finally:
        show()


def show_verdict(validation: Validation, *, as_json: bool, plain: bool) -> None:
    """Print a validation."""
    if as_json:
        print_json(validation)
        return
    from stepprof_lab.report.text import show_validation

    show_validation(validation, results(), plain=plain)


@stepprof.command(short_help="Show what a trace gives away, and write a copy without it.")
@click.argument("traces", type=PATH, nargs=-1, required=True, metavar="TRACE")
@click.option("--out", type=PATH, metavar="FILE", help="The copy (default: <trace>.shared.json.gz beside the trace).")
@click.option("--yes", is_flag=True, help="Ask nothing; what cannot be judged is taken out.")
@click.option(
    "--keep",
    multiple=True,
    type=click.Choice(["labels", "operators", "kernels", "threads", "inputs"]),
    help="Keep these as they are, but for secrets; may be given several times.",
)
@click.option("--drop", multiple=True, type=click.Choice(["shapes", "stacks"]), help="Take these out as well.")
@usual(json=True)
def share(
    traces: tuple[Path, ...],
    out: Path | None,
    yes: bool,
    keep: tuple[str, ...],
    drop: tuple[str, ...],
    as_json: bool,
    plain: bool,
) -> None:
    """Write a copy of TRACE, and of its record, that gives away no person, machine, path or moment.

    The copy gives the same numbers and findings. Names stay where all of their words are public; at a terminal the
    others are asked about, elsewhere they are replaced.
    """
    from stepprof_lab import sharing
    from stepprof_lab.report.shared import of_shared
    from stepprof_lab.report.text import show
    from stepprof_lab.trace.redact import Choices

    demand(len(traces) == 1, f"{len(traces)} traces to share", "one at a time (the copies of ranks go together again)")
    (trace,) = traces
    fresh("copy", out)
    choices = Choices(drop=frozenset(drop))
    reviewed = sharing.review(trace, choices, keep)
    if sys.stdin.isatty() and not yes:
        show(of_shared(reviewed.shared), progress_console(), plain=plain)
        reviewed = sharing.review(trace, sharing.asked(reviewed, choices, click.confirm), keep)
        click.confirm("Write the copy?", abort=True, err=True)
    shared = sharing.write(reviewed, out)
    if as_json:
        print_json(shared)
    else:
        show(of_shared(shared), results(), plain=plain)


@stepprof.command(short_help="Run a lab's notebook or script and check its answers.")
@click.argument("file", type=PATH)
@click.option("--timeout", type=Seconds(), default="600s", show_default=True, help="For the whole file.")
@usual(json=True)
def check(file: Path, timeout: float, as_json: bool, plain: bool) -> None:  # noqa: ARG001 - it is plain already
    """Run FILE from its first cell to its last and show the verdict of every check.

    FILE is a lab's notebook (.ipynb) or script (.py). Exit 4 where points are missing.
    """
    from stepprof_lab.grading import running
    from stepprof_lab.report import verdict

    ran = running.run(file, timeout_s=timeout)
    if as_json:
        print_json(running.as_json(ran))
    else:
        results().print("\n".join(verdict.of_run(ran)), markup=False, highlight=False, soft_wrap=True)
    if problem := running.missing(ran):
        raise AnswerIsNo(*problem)


@stepprof.command(short_help="Grade what a class handed in: sandboxed, in parallel, here or on Slurm.")
@click.argument("assignment")
@click.option(
    "--course", type=PATH, metavar="DIR", default=".", help="nbgrader's folder of the course (default: here)."
)
@click.option(
    "--exercises", type=PATH, metavar="DIR", help="The releases (default: exercises or release in the course)."
)
@click.option("--student", "students", multiple=True, metavar="NAME", help="Only this one; may be given again.")
@click.option("--regrade", is_flag=True, help="Grade again what is graded already.")
@click.option("--require", type=click.Choice(["gpu"]), help="Give the labs that use a GPU one; nothing else counts.")
@click.option("--executor", type=click.Choice(["local", "slurm"]), default="local", show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), help="Beside each other on this machine (default: its processors).")
@click.option("--no-sandbox", is_flag=True, help="Run what was handed in as yourself; the grades say so.")
@click.option(
    "--gradebook", "gradebook_url", metavar="URL", help="SQLAlchemy's URL (default: gradebook.db in the course)."
)
@click.option("--course-id", default="stepprof_lab", show_default=True, help="nbgrader's name of the course.")
@click.option("--seconds", type=Seconds(), default="600s", show_default=True, help="For one submission.")
@click.option("--memory", type=click.IntRange(min=256), default=4096, show_default=True, help="MB, for one submission.")
@click.option("--partition", help="Slurm: the partition.")
@click.option("--time", "limit", metavar="TIME", help="Slurm: limit of one task, as Slurm writes it.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, help="Slurm: GPUs of a task whose lab uses one.")
@click.option("--throttle", type=click.IntRange(min=1), help="Slurm: so many tasks at once at the most.")
@click.option("--sbatch", multiple=True, metavar="KEY=VALUE", help="Slurm: any other option; may be given again.")
@click.option(
    "--setup", multiple=True, metavar="LINE", help="Slurm: a line of shell before the worker (modules, venv)."
)
@click.option("--csv", type=PATH, metavar="FILE", help="Write all grades as a table that Canvas and Moodle take.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@usual(json=True)
def grade(as_json: bool, plain: bool, **asked: Any) -> None:
    """Grade every submission of ASSIGNMENT that is not graded yet, and write the gradebook.

    Takes nbgrader's submitted/STUDENT/ASSIGNMENT tree as it is, or files named by student. What is done already is not
    done again, so a run that was ended may be started again. Exit 4 where some submission could not be run.
    """
    from stepprof_lab.grading.marking import command
    from stepprof_lab.report import grades
    from stepprof_lab.report.progress import drawn

    with drawn(progress_console(), plain=plain) as progress:
        summary, imported = command.grade(progress=progress, **asked)
    if as_json:
        print_json(command.as_json(summary, imported))
    elif summary.plan is not None:
        results().print(summary.plan, markup=False, highlight=False, soft_wrap=True)
    else:
        grades.show(summary, imported, results(), plain=plain)
    if summary.failed:
        raise AnswerIsNo(*command.failures(summary))


@stepprof.command(short_help="All of it on a small real training loop.")
@click.option("--device", default="auto", help=f"Where to run: {DEVICES} (default: auto, the best one present).")
@click.option("--out", type=PATH, metavar="DIR", help="Where everything goes (default: a new one below runs/).")
@usual(json=True)
def demo(device: str, out: Path | None, as_json: bool, plain: bool) -> None:
    """The whole way of working on a small real training loop, in under a minute."""
    from stepprof_lab.demo import run
    from stepprof_lab.report.progress import drawn

    with drawn(progress_console(), plain=plain) as progress:
        found = run.run(device=device, out=out, progress=progress)
    if as_json:
        print_json(found.summary)
        return
    from stepprof_lab.report.text import show_demo

    show_demo(found, results(), plain=plain)


# --- running it -----------------------------------------------------------------------------------------------------


def explain(error: click.ClickException) -> StepprofError:
    """A mistake in the arguments, in the form of every other error."""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "stepprof"
    return StepprofError(error.format_message().rstrip("."), f"the arguments of {command}", f"see {command} --help")


def silence_stdout() -> None:
    """Nothing more can be written there; what is still buffered must not fail once more when the program ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_error(error: StepprofError) -> int:
    """Print the one line, then what belongs under it; returns the exit code."""
    notice(f"stepprof: error: {error}")
    if error.detail:
        notice(error.detail.rstrip("\n"))
    return error.exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb.

    Args:
        arguments: what stands after ``stepprof`` on the command line; None takes it from there.

    Returns:
        The exit code: 0 done, 2 input or arguments cannot be used, 3 not available, 4 the answer is no.
    """
    # Every profiler session prints two lines of its own to stderr; from this level on it does not.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        result = stepprof.main(given, prog_name="stepprof", standalone_mode=False)
        sys.stdout.flush()
    except StepprofError as error:
        if debug:
            traceback.print_exc()
        return report_error(error)
    except click.exceptions.NoArgsIsHelpError as error:
        notice(error.format_message())
        return StepprofError.exit_code
    except click.ClickException as error:
        return report_error(explain(error))
    except (KeyboardInterrupt, click.Abort) as error:
        notice("stepprof: interrupted; nothing half-written was left")
        # click puts its own error around either of the two.
        return TERMINATED if isinstance(error.__cause__, Terminated) else INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe went away (| head): nobody is left to tell.
        silence_stdout()
        return 0
    except SystemExit as error:
        return report_error(
            StepprofError(f"the program was told to end ({error.code})", "a verb that ends by itself", "see --debug")
        )
    except OSError as error:
        if debug:
            traceback.print_exc()
        silence_stdout()
        return report_error(
            StepprofError(
                f"{error.filename or 'stdout'!r} cannot be used ({error.strerror or error})",
                "a path that can be read or written, and room for what is written",
                "check it and try again",
            )
        )
    except Exception as error:
        if debug:
            traceback.print_exc()
        notice(
            f"stepprof: error: a mistake of stepprof itself ({type(error).__name__}: {error}); expected none; "
            "please report it with the output of the same command and --debug"
        )
        return BUG
    return result if isinstance(result, int) else 0
