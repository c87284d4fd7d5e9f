"""The `dotsketch` command, and what of it is short: versions and data sets."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table

from .._versions import versions as installed_versions
from ..datasets import fetch_dataset, list_datasets
from .compare import compare
from .fit import fit
from .options import speaking
from .output import OneLineErrors, facts, say, show
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
    libraries = installed_versions()
    show(as_json, libraries, facts(libraries))


@main.group()
def datasets() -> None:
    """List and download named data sets: scikit-learn's, a local folder's, OpenML's.

    The local folder is the one that the environment variable DOTSKETCH_DATA names. A name can be
    given to `compare` and `fit` instead of a file.

    \b
    Examples:
      dotsketch datasets list
      dotsketch datasets fetch kin8nm
      dotsketch compare digits
    """


@datasets.command("list")
@speaking
def list_command(as_json: bool, verbose: bool) -> None:
    """List all known data sets.

    \b
    Example:
      dotsketch datasets list --json
    """
    known = list_datasets()
    table = Table()
    table.add_column("name", no_wrap=True)
    table.add_column("where")
    for data_set in known:
        where = data_set.where if data_set.available else f"{data_set.where}, to be fetched"
        table.add_row(data_set.name, where)
    show(as_json, {"datasets": [asdict(data_set) for data_set in known]}, table)


@datasets.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Download it even if it is already there.")
@speaking
def fetch(name: str, force: bool, as_json: bool, verbose: bool) -> None:
    """Download the data set NAME from OpenML into the cache.

    \b
    Example:
      dotsketch datasets fetch kin8nm
    """
    say(f"Fetching {name} from OpenML")
    path = str(fetch_dataset(name, force=force))
    show(as_json, {"name": name, "path": path}, path)


for command in (compare, fit, predict, info):
    main.add_command(command)
