"""The `dotsketch` command."""

from __future__ import annotations

import click

from .._versions import versions as installed_versions
from .compare import compare
from .datasets import datasets
from .errors import OneLineErrors
from .fit import fit
from .options import speaking
from .output import Output, facts
from .predict import info, predict

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=OneLineErrors, context_settings=SETTINGS)
@click.version_option(package_name="dotsketch", prog_name="dotsketch")
def main() -> None:
    """Random features and Gaussian processes for a table of data.

    DATA is a file (CSV, Parquet) or the name of a data set. Results go to
    stdout, messages to stderr; a mistake ends with one line and exit code 2.

    \b
    Examples:
      dotsketch compare houses.csv --target price
      dotsketch fit houses.csv --target price -o houses.model
      dotsketch predict houses.model new.csv -o predictions.csv
    """


@main.command()
@speaking
def versions(as_json: bool, verbose: bool) -> None:
    """Print the versions that a bug report should state.

    \b
    Example:
      dotsketch versions
    """
    found = installed_versions()
    Output(as_json, verbose).result(found, facts(found))


for command in (compare, fit, predict, info, datasets):
    main.add_command(command)
