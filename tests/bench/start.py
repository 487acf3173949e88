"""CPU seconds from the start of tars to the moment its request leaves, above the bare imports that it cannot avoid.

    python tests/bench/start.py [--runs 7] [--json OUT]

Two figures on the sample memory, the least of several runs each, taken in turn so that a busy machine disturbs both
alike: `import anthropic, numpy, apsw` alone, and `tars "…"` up to the request. A server on loopback notes how much CPU
the program has used when the request arrives, from /proc or, elsewhere, when it is over. The exit status is 1 if the
difference is over the bar.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from servers import Request, ScriptedAnthropic, Step, reply  # noqa: E402

SAMPLE = ROOT / "memory"
BARE = "import anthropic, numpy, apsw"
QUESTION = "when is the boiler service due?"
BAR = 0.3


def environment(home: Path, url: str) -> dict[str, str]:
    own = ("TARS_", "ANTHROPIC_", "OLLAMA_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    settings = {"TARS_HOME": str(home), "TARS_MEMORY_DIR": str(SAMPLE)}
    # What tars sets for itself, so that numpy costs the same on both sides.
    return kept | settings | {"OPENBLAS_NUM_THREADS": "1", "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": url}


def cpu_of(pid: int) -> float | None:
    """User and system time of a running process; None off Linux."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare(environ: dict[str, str]) -> float:
    """Before the interpreter takes it all down again, which tars has not done either when its request leaves."""
    program = f"{BARE}; import time; print(time.process_time())"
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, check=True)
    return float(done.stdout)


def until_request(home: Path) -> float:
    """One question to tars; the CPU it had used when the server saw its request."""
    seen: list[float | None] = []
    started: list[subprocess.Popen[bytes]] = []

    def note(request: Request) -> Step:
        seen.append(cpu_of(started[0].pid))
        return reply("In October.")

    with ScriptedAnthropic([note]) as server:
        command = [sys.executable, "-m", "tars", "--no-save", QUESTION]
        started.append(
            subprocess.Popen(
                command,
                env=environment(home, server.url),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        _, status, usage = os.wait4(started[0].pid, 0)
        started[0].returncode = os.waitstatus_to_exitcode(status)
    if not seen:
        raise SystemExit(f"tars ended with status {started[0].returncode} before it asked")
    return seen[0] if seen[0] is not None else usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the start of a conversation.")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures there too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tars-start-") as name:
        home = Path(name)
        until_request(home)  # builds the index, and lets Python write its bytecode
        environ = environment(home, "http://127.0.0.1:9")
        pairs = [(bare(environ), until_request(home)) for _ in range(args.runs)]
    imports, asked = (min(values) for values in zip(*pairs, strict=True))
    above = asked - imports
    print(f"{BARE}: {imports:.2f} CPU-s")
    print(f"tars until the request leaves: {asked:.2f} CPU-s")
    print(f"above the imports: {above:.2f} CPU-s (bar {BAR}): {'ok' if above <= BAR else 'MISSED'}")
    if args.json:
        args.json.write_text(json.dumps({"imports": imports, "until_request": asked, "above": above, "bar": BAR}))
    return 0 if above <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
