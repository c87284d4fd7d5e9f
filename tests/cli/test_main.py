"""Help, versions, completion, data sets: the rest of the command."""

import errno
import io
import os
import subprocess
import sys

import click
import numpy as np
import pytest

import dotsketch
import dotsketch_command
from dotsketch.cli.main import main


def commands(group, path=()):
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


def test_every_command_and_option_is_explained(run):
    found = dict(commands(main))
    assert {"compare", "fit", "predict", "info", "datasets"} <= {path[0] for path in found}
    for path, command in found.items():
        text = run(*path, "--help").stdout
        assert command.help, path
        assert text.startswith("Usage: ")
        assert "Example" in text
        assert "  dotsketch " in text
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, (path, option.name)


def test_versions(run, run_json):
    assert dotsketch.__version__ in run("--version").stdout
    assert run_json("versions")["dotsketch"] == dotsketch.__version__
    assert "fast kernels" in run("versions").stdout


def test_completion_completes():
    environment = {
        "_DOTSKETCH_COMPLETE": "bash_complete",
        "COMP_WORDS": "dotsketch com",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "dotsketch"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["plain,compare"]


def test_data_sets(run, run_json, tmp_path, monkeypatch, folder):
    found = {one["name"]: one for one in run_json("datasets", "list")["datasets"]}
    assert found["digits"]["available"]
    assert "digits" in run("datasets", "list").stdout
    np.savez(tmp_path / "mine.npz", X_train=np.ones((4, 2)), y_train=np.arange(4.0))
    monkeypatch.setenv("DOTSKETCH_DATA", str(tmp_path))
    assert "mine" in run("datasets", "list").stdout


def test_nothing_given_shows_the_help(run):
    assert "Usage: " in run(code=2).stderr


class Gone(io.StringIO):
    """A stream whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_that_has_gone_ends_quietly(monkeypatch, capsys, options):
    """As in `dotsketch … | head`."""
    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(SystemExit) as ended:
        main(["versions", *options])
    sys.stdout.close()  # what it was replaced by
    assert ended.value.code == 0
    assert capsys.readouterr().err == ""


def test_closed_streams_are_replaced(monkeypatch):
    """As in `dotsketch … >&-`, where Python has no stdout."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(sys, "argv", ["dotsketch", "versions"])
    with pytest.raises(SystemExit) as ended:
        dotsketch_command.main()
    assert ended.value.code == 0
    assert sys.stdout.name == sys.stderr.name == os.devnull
    sys.stdout.close()
    sys.stderr.close()


def test_an_interrupt_during_imports_has_no_traceback(monkeypatch, capsys):
    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name == "dotsketch.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "dotsketch.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        dotsketch_command.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "dotsketch: interrupted\n"
