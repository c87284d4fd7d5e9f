"""One measurement, in a process of its own: `python -m benchmarks.worker`, a job on its input.

A process of its own gives every library its own thread settings, an honest peak of memory, and
no influence on the next. The answer is the last line that is printed, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .adapters import Adapter, all_adapters
from .cases import Case
from .machine import measure_limits
from .peers import Unavailable

MOST_REPEATS = 30
LEAST_REPEATS = 3
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Settings:
    """How a job is run."""

    threads: int
    budget: float  # seconds to repeat for
    path: str | None = None  # of a clone, for libraries that are not installed


def run_adapter(adapter: Adapter, case: Case, settings: Settings) -> dict[str, Any]:
    """Start a process for one case; its times, or {"skipped": reason}."""
    job = {"key": adapter.key, "case": asdict(case), "settings": asdict(settings)}
    return _start(job, settings.threads, dict(adapter.environment))


def run_limits(threads: int) -> dict[str, Any]:
    """Start a process that measures what the machine can do."""
    return _start({"limits": threads}, threads, {})


def _start(job: dict[str, Any], threads: int, environment: dict[str, str]) -> dict[str, Any]:
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), **environment}
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker"],
        input=json.dumps(job),
        env=environment,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(f"The job {job} failed:\n{process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])


def measure(adapter: Adapter, case: Case, settings: Settings) -> dict[str, Any]:
    """Times of transform, and the growth of the peak memory in the first transform.

    A library beside ours that is not installed, or whose interface has changed, is passed over.
    """
    X = case.inputs()
    path = None if settings.path is None else Path(settings.path).resolve()
    passed_over = (Unavailable,) if adapter.is_ours else (Exception,)
    try:
        transform = adapter.build(case, X, settings.threads, path)
        peak = memory_growth(transform)
        seconds = repeat(transform, settings.budget)
    except passed_over as problem:
        return {"skipped": str(problem).splitlines()[0] if str(problem) else repr(problem)}
    return {"seconds": seconds, "peak_bytes": peak}


def repeat(function: Any, budget: float) -> list[float]:
    """Times of repeated calls, until the budget is used; slow calls at least three times."""
    seconds: list[float] = []
    while len(seconds) < LEAST_REPEATS or (sum(seconds) < budget and len(seconds) < MOST_REPEATS):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds


def memory_growth(function: Any) -> int:
    """Growth of the peak resident memory during a call, in bytes.

    Linux can forget an earlier peak; elsewhere only what exceeds the earlier peak is seen.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        function()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit

    def peak() -> int:
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024

    Path("/proc/self/clear_refs").write_text("5")  # the peak becomes the present size
    before = peak()
    function()
    return peak() - before


def main() -> None:
    job = json.load(sys.stdin)
    if "limits" in job:
        answer = measure_limits(job["limits"])
    else:
        adapter = all_adapters()[job["key"]]
        answer = measure(adapter, Case(**job["case"]), Settings(**job["settings"]))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
