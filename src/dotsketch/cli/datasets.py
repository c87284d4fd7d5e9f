"""`dotsketch datasets`: which named data sets there are, where they are, and fetching them."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table

from ..datasets import fetch_dataset, list_datasets
from .options import speaking
from .output import Output


@click.group()
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
    for info in known:
        where = info.where if info.available else f"{info.where}, to be fetched"
        table.add_row(info.name, where)
    Output(as_json, verbose).result({"datasets": [asdict(info) for info in known]}, table)


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
    output = Output(as_json, verbose)
    output.say(f"Fetching {name} from OpenML")
    path = str(fetch_dataset(name, force=force))
    output.result({"name": name, "path": path}, path)
