"""`mosaic policy`: what the network policy says of URLs, without touching the network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.arguments import regular_file
from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, print_table, say
from contracts.errors import InputError

if TYPE_CHECKING:
    from contracts.network_policy import NetworkPolicy
    from contracts.policy_verdict import Verdict

app = typer.Typer(help="Ask the network policy about URLs. Nothing touches the network.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep `check` a subcommand of its own."""


@app.command("check")
def check(
    urls: Annotated[list[str] | None, typer.Argument(help="URLs to judge.")] = None,
    policy: Annotated[str | None, typer.Option(help="Named policy; the deployment's by default.")] = None,
    cases: Annotated[Path | None, typer.Option(help="JSON lines with url, dns, dns_then, location.")] = None,
    resolve: Annotated[list[str] | None, typer.Option(help="host=ip,ip: what a name resolves to.")] = None,
    as_json: Json = False,
) -> None:
    """Judge URLs and say by which rule. Exit 1 if any is denied."""
    from settings.load import load

    settings = load()
    chosen = settings.network_policy(policy)
    if not urls and cases is None:
        raise InputError("nothing-to-do", "expected URLs or --cases FILE.jsonl, got neither")
    verdicts = []
    for verdict in _judged(chosen, urls or [], cases, _answers(resolve or [])):
        row = {"url": verdict.url, "verdict": verdict.verdict, "rule": verdict.rule, "reason": verdict.reason}
        verdicts.append(row)
        if as_json:
            print_json(row)
    if not as_json:
        print_table(f"policy {chosen.name}", ("url", "verdict", "rule", "reason"), (row.values() for row in verdicts))
    if any(row["rule"] == "dns-no-answer" for row in verdicts):
        say("mosaic: names are not looked up here; say what they resolve to with --resolve host=ip,ip")
    if any(row["verdict"] == "deny" for row in verdicts):
        raise typer.Exit(SOME_FAILED)


def _judged(
    chosen: NetworkPolicy, urls: list[str], cases: Path | None, answers: dict[str, list[str]]
) -> Iterator[Verdict]:
    from contracts.policy_verdict import judge, judge_case

    for url in urls:
        yield judge(chosen, url, answers)
    if cases is not None:
        for number, line in enumerate(_lines(cases), 1):
            if line.strip():
                yield judge_case(chosen, _case(line, cases, number))


def _lines(cases: Path) -> list[str]:
    try:
        return regular_file(cases).read_text("utf-8").split("\n")
    except OSError as error:
        raise InputError("cases-file", f"cannot read {cases}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError("cases-file", f"{cases}: expected UTF-8, got other bytes at {error.start}") from error


def _case(line: str, cases: Path, number: int) -> dict[str, Any]:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise InputError("cases-json", f"{cases}:{number}: expected a JSON object per line") from error
    if not isinstance(case, dict) or not isinstance(case.get("url"), str):
        raise InputError("cases-url", f"{cases}:{number}: expected an object with a string `url`")
    return case


def _answers(resolve: list[str]) -> dict[str, list[str]]:
    answers = {}
    for item in resolve:
        host, equals, addresses = item.partition("=")
        if not equals:
            raise InputError("resolve-form", f"expected host=ip,ip, got {item!r}")
        answers[host.lower()] = [_address(address) for address in addresses.split(",") if address]
    return answers


def _address(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        raise InputError("resolve-form", f"expected host=ip,ip, got {text!r} for an address") from None
    return text
