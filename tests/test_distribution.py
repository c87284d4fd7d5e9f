"""What a wheel and an sdist hold: the package and nothing else; all that a build needs."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
KNOWN = {
    ".ci",
    ".github",
    "attacks",
    "benchmarks",
    "docs",
    "examples",
    "experiments",
    "src",
    "tests",
}

# Without compiling: the Python files are chosen in the same way, in seconds.
BUILD = """
import sys
from scikit_build_core.build import build_sdist, build_wheel
build_sdist(sys.argv[1])
build_wheel(sys.argv[1], {"wheel.cmake": "false"})
"""


@pytest.mark.skipif(not (ROOT / "CMakeLists.txt").is_file(), reason="needs the source tree")
def test_wheel_and_sdist_hold_what_they_should(tmp_path):
    pytest.importorskip("scikit_build_core", reason="building needs scikit-build-core")
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel], [sdist] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")

    with zipfile.ZipFile(wheel) as archive:
        names = [PurePosixPath(name) for name in archive.namelist()]
    package = [name for name in names if not name.parts[0].endswith(".dist-info")]
    assert {name.parts[0] for name in package} == {"dotsketch", "dotsketch_command"}
    assert {name.suffix for name in package} - {".typed"} == {".py"}  # no C++ sources
    assert not {"attacks", "experiments", "paper", "tests"} & {
        part for name in package for part in name.parts
    }
    sources = {path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")}
    assert {Path(name) for name in package if name.suffix == ".py"} == sources

    with tarfile.open(sdist) as archive:
        files = [Path(*PurePosixPath(m.name).parts[1:]) for m in archive if m.isfile()]
    needed = {"pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"}
    assert needed <= {str(name) for name in files}
    native = [p for s in ("*.cpp", "*.h", "*.py") for p in (ROOT / "src").rglob(s)]
    assert {path.relative_to(ROOT) for path in native} <= set(files)
    # Neither results nor data, nor what was built
    assert {name.parts[0] for name in files if len(name.parts) > 1} <= KNOWN
    assert not {".npz", ".parquet", ".so", ".pyc"} & {name.suffix for name in files}
