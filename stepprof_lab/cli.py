"""The command ``stepprof``: one function a verb, and no logic of its own.

Results go to stdout, progress and notices to stderr, an error is one line on stderr. Everything that takes time to
import is imported by the verb that needs it, so that ``--help`` answers at once and works without torch.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from stepprof_lab import __version__
from stepprof_lab.errors import AnswerIsNo, StepprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

INTERRUPTED = 130
"""What a shell expects of a command that Ctrl-C ended."""

BUG = 70
"""Our own mistake (EX_SOFTWARE of sysexits.h): none of the documented codes."""

DEVICES = "auto, cpu, gpu, cuda or rocm"


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


def results() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def progress_console() -> Console:
    """The console for progress and notices."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON object on stdout and nothing else."""
    from stepprof_lab.report.json import to_json

    click.echo(to_json(value).rstrip("\n"))


def notice(text: str) -> None:
    """A line on stderr."""
    click.echo(text, err=True)


def fresh_page(path: Path | None) -> None:
    """Refuse a report's name that is taken before the long work begins, not after it."""
    from stepprof_lab.files import name_is_taken

    if path is not None and path.exists():
        raise name_is_taken(path, "report")


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


@stepprof.command()
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


@stepprof.command()
@click.argument("trace", type=PATH)
@click.option("--html", type=PATH, metavar="FILE", help="Write a self-contained page.")
@click.option("--svg", type=PATH, metavar="FILE", help="Write the timeline as a picture.")
@usual(json=True)
def read(trace: Path, html: Path | None, svg: Path | None, as_json: bool, plain: bool) -> None:
    """Interpret a trace of torch.profiler (.json or .json.gz), ours or anyone's.

    Where the record of a capture lies beside the trace, its question heads the report. Works without torch.
    """
    from stepprof_lab import record as records

    fresh_page(html)
    fresh_page(svg)
    interpretation, record = records.read(trace)
    write_pictures(html, svg, interpretation=interpretation, record=record)
    if as_json:
        print_json(interpretation.analysis)
    else:
        from stepprof_lab.report.text import show_analysis

        show_analysis(interpretation.analysis, results(), record=record, plain=plain)


def write_pictures(html: Path | None, svg: Path | None, **parts: Any) -> None:
    """Write the page and the timeline that were asked for."""
    from stepprof_lab.files import write_new

    if svg is not None:
        from stepprof_lab.report.svg import timeline_svg

        interpretation = parts["interpretation"]
        picture = timeline_svg(interpretation.timeline, findings=interpretation.analysis.findings)
        write_new(svg, picture.encode(), "picture")
        notice(f"picture: {svg}")
    if html is not None:
        from stepprof_lab.report.html import page

        write_new(html, page(**parts).encode(), "report")
        notice(f"report: {html}")


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
@usual(json=False)
def new(scenario: Path, workload: str | None, device: str, plain: bool, **flags: Any) -> None:
    """Write SCENARIO, a TOML file with one question, the step's boundary, the conditions and the unit.

    What no flag gives is asked at the terminal; what a workload shows is observed and marked so.
    """
    from stepprof_lab import questions
    from stepprof_lab import scenario as room
    from stepprof_lab.files import name_is_taken

    if scenario.exists():
        raise name_is_taken(scenario, "scenario")
    given = {name: as_answer(value) for name, value in flags.items() if value is not None}
    observed = observe(workload, device) if workload else {}
    ask = asking(plain=plain) if sys.stdin.isatty() else None
    room.save(questions.answer(given, ask, observed=observed), scenario)
    click.echo(f"scenario: {scenario}")
    click.echo(f"next: stepprof profile {scenario} {workload or 'FILE'}")


def as_answer(value: Any) -> str:
    """What a flag gave, as the text that the same question takes at a terminal."""
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def observe(spec: str, device: str) -> dict[str, str]:
    """The conditions that one step of a workload shows, as answers."""
    from stepprof_lab import devices, questions, workload
    from stepprof_lab.capturing.observe import observing

    step = workload.build(spec, devices.choose(device).torch_device)
    with observing(step) as seen:
        workload.run_step(step, 0)
    return questions.from_observation(seen)


def asking(*, plain: bool) -> Callable[[Any, str | None], str]:
    """A function that asks at the terminal; the reason why an answer was refused stands above the next try."""

    def ask(question: Any, reason: str | None) -> str:
        if reason:
            notice(reason if plain else click.style(reason, fg="yellow"))
        hints = ", ".join(question.choices or question.examples)
        if question.answers == "yes or no":
            hints = "yes or no"
        text = f"{question.asks} ({hints})" if hints else question.asks
        return str(click.prompt(text, default=question.default or "", show_default=bool(question.default), err=True))

    return ask


@stepprof.command()
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
    from stepprof_lab.report.progress import drawn

    fresh_page(html)
    traced = None if ranks is None else rank_numbers(ranks)
    asked = room.load(scenario)
    with drawn(progress_console(), plain=plain) as progress:
        captured = profile_workload(
            asked,
            workload,
            device=device,
            out=out,
            name=scenario.stem,
            record_shapes=options["shapes"],
            profile_memory=options["memory"],
            with_stack=options["stacks"],
            traced_ranks=traced,
            progress=progress,
        )
    if captured is None:
        return
    interpretation, record = records.read(captured.trace, origin="live")
    write_pictures(html, None, interpretation=interpretation, record=record)
    if as_json:
        print_json(records.Profiled(trace=str(captured.trace), record=captured.record))
        return
    from stepprof_lab.report.text import show_analysis, show_captured

    show_captured(captured.record, console := results(), trace=captured.trace, plain=plain)
    show_analysis(interpretation.analysis, console, record=record, plain=plain)


def rank_numbers(text: str) -> list[int]:
    """``0,3`` as numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise StepprofError(
            f"--ranks {text}", "numbers with commas between them", "say --ranks 0 or --ranks 0,1"
        ) from None


@stepprof.command()
@click.argument("scenario", type=PATH)
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--device", default="auto", help=f"Where to run both: {DEVICES} (default: auto, the best one present).")
@click.option("--replicates", default=8, show_default=True, type=click.IntRange(2), help="Fresh pairs of arms.")
@click.option("--budget", default="60s", show_default=True, type=Seconds(), help="Time for all of it.")
@click.option("--margin", default="1%", show_default=True, type=Share(), help="Smaller differences are none.")
@click.option("--out", type=PATH, metavar="FILE", help="Where the raw values go (default: a new file below runs/).")
@click.option("--html", type=PATH, metavar="FILE", help="Write a self-contained page.")
@usual(json=True)
def validate(
    scenario: Path,
    before: str,
    after: str,
    device: str,
    replicates: int,
    budget: float,
    margin: float,
    out: Path | None,
    html: Path | None,
    as_json: bool,
    plain: bool,
) -> None:
    """Compare two workloads outside the profiler: BEFORE and AFTER are FILE or FILE:NAME.

    Both start from the same state and must give the same outputs. Exit 4 where they cannot be compared.
    """
    from stepprof_lab import scenario as room
    from stepprof_lab.files import name_is_taken
    from stepprof_lab.report.progress import drawn
    from stepprof_lab.validate import compare
    from stepprof_lab.validate.keep import keep

    fresh_page(html)
    if out is not None and out.exists():
        raise name_is_taken(out, "validation")
    asked = room.load(scenario)
    with drawn(progress_console(), plain=plain) as progress:
        validation = compare(
            before,
            after,
            asked,
            device=device,
            replicates=replicates,
            budget_s=budget,
            margin=margin,
            progress=progress,
        )
    kept = keep(validation, out, name=scenario.stem)
    notice(f"raw values: {kept}")
    write_pictures(html, None, scenario=asked, validation=validation)
    if as_json:
        print_json(validation)
    else:
        from stepprof_lab.report.text import show_validation

        show_validation(validation, results(), scenario=asked, plain=plain)
    if validation.verdict == "not comparable":
        raise AnswerIsNo(
            f"two arms that are not comparable ({validation.reasons[0]})",
            "the same start and the same outputs",
            "mend the arm, or state a tolerance with its reason in the scenario's [outputs]",
        )


@stepprof.command()
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
    except StepprofError as error:
        if debug:
            traceback.print_exc()
        return report_error(error)
    except click.exceptions.NoArgsIsHelpError as error:
        notice(error.format_message())
        return StepprofError.exit_code
    except click.ClickException as error:
        return report_error(explain(error))
    except (KeyboardInterrupt, click.Abort):
        notice("stepprof: interrupted; nothing half-written was left")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe went away (| head): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        notice(
            f"stepprof: error: a mistake of stepprof itself ({type(error).__name__}: {error}); expected none; "
            "please report it with the output of the same command and --debug"
        )
        return BUG
    return result if isinstance(result, int) else 0
