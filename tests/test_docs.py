"""The pages: examples are right, every public name has an entry, Sphinx has no complaint."""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dotsketch

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(pycon|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WHOLE_SCRIPTS = ("README.md",)  # elsewhere `python` blocks may be pieces, and `pycon` blocks run
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
once = pytest.mark.skipif(
    os.environ.get("DOTSKETCH_FAST") == "0", reason="run once, with the compiled kernels"
)


def examples(text):
    """(language, code, line) of every fenced block of Python."""
    for match in FENCE.finditer(text):
        yield match[1], match[2], text[: match.start()].count("\n") + 2


def run_examples(text, name):
    """Run the blocks of a page one after the other in one namespace; the number of failures."""
    namespace = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for language, code, line in examples(text):
        if language == "python":
            script = compile("\n" * (line - 1) + code, name, "exec")
            if name in WHOLE_SCRIPTS:
                exec(script, namespace)
            continue
        test = doctest.DocTestParser().get_doctest(code, namespace, name, name, line - 1)
        runner.run(test, clear_globs=False)
        namespace.update(test.globs)
    return runner.summarize(verbose=False).failed


@once
@every_page
def test_examples_of_pages_are_right(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(page.read_text(encoding="utf-8"), page.name) == 0


@every_page
def test_links_lead_to_files_and_no_line_is_dropped_as_a_comment(page):
    """MyST drops lines that begin with a percent sign."""
    text = page.read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []
    assert re.findall(r"^\s*%", FENCE.sub("", text), re.MULTILINE) == []


def test_wrong_examples_are_found(capsys):
    assert run_examples("```pycon\n>>> 1 + 1\n3\n```\n", "page") == 1
    with pytest.raises(SyntaxError):
        run_examples("```python\nmissing(\n```\n", "page")
    with pytest.raises(NameError):
        run_examples("```python\nmissing\n```\n", "README.md")
    assert run_examples("```pycon\n>>> x = 1\n```\n\n```pycon\n>>> x\n1\n```\n", "page") == 0


def build(folder):
    """The pages as HTML, built with warnings as errors."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_parser")
    pytest.importorskip("furo")
    pytest.importorskip("numpydoc")
    pytest.importorskip("sphinx_gallery")
    # Examples have tests of their own; sphinx-gallery and autosummary write beside the pages
    shutil.copytree(ROOT / "examples", folder / "examples")
    ignored = shutil.ignore_patterns("generated", "gallery")
    shutil.copytree(DOCS, folder / "docs", ignore=ignored)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    command += ["-D", "plot_gallery=0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    result = subprocess.run(
        [*command, "-d", str(folder / "cache"), str(folder / "docs"), str(folder / "html")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder / "html"


@once
def test_built_pages(tmp_path):
    """One test, since a build takes seconds and processes that run tests share no fixtures."""
    built = build(tmp_path)
    check_that_every_public_name_is_in_the_reference(built)
    check_that_pages_need_nothing_from_the_network(built)


def check_that_every_public_name_is_in_the_reference(built):
    from sphinx.util.inventory import InventoryFile

    with (built / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    documented = {name for kind in inventory if kind.startswith("py:") for name in inventory[kind]}
    assert [n for n in dotsketch.__all__ if f"dotsketch.{n}" not in documented] == []


def check_that_pages_need_nothing_from_the_network(built):
    """No script, style, font or image of a page comes from another host."""
    asset = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"(?:https?:)?//", re.I)
    pages = list(built.rglob("*.html"))
    assert len(pages) > 15
    assert [page.name for page in pages if asset.search(page.read_text(encoding="utf-8"))] == []
