# test: slow timeout=180
"""bench_peers_programs_test.py SOURCE BUILD: builds the programs of tools/bench-peers for each installed peer, and
checks that each runs one short case between 2 ranks with right results. Peers that are not installed are skipped, by
name."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
SOURCE = sys.argv[1] if len(sys.argv) > 1 else "."
BUILD = sys.argv[2] if len(sys.argv) > 2 else "build"
sys.path[:0] = [os.path.join(SOURCE, "bench")]
from peers import sides  # noqa: E402

LIMIT_S = 60
ARGUMENTS = ["allreduce", "gather", "barrier", "--bytes", "8,64K", "--time-ms", "1", "--json"]
CASES = [("allreduce", 8), ("allreduce", 65536), ("gather", 8), ("gather", 65536), ("barrier", 0)]


def complaint(machine, peer):
    """Returns what is wrong with the peer's program; None if it is right."""
    command, env = machine.command(sides.by_name(f"{peer}:default"), 2, ARGUMENTS)
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **env}, check=False)
    except subprocess.TimeoutExpired:
        return f"did not end within {LIMIT_S} s"
    finally:
        machine.clean()
    rows = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    found = [(row["collective"], row["bytes"]) for row in rows]
    if ran.returncode != 0 or found != CASES:
        return f"status {ran.returncode}, measured {found}, expected {CASES}:\n{ran.stderr}"
    wrong = [case for case, row in zip(CASES, rows) if row["wrong"] or row["ranks"] != 2]
    return f"wrong results: {wrong}" if wrong else None


def main():
    machine = sides.Machine(SOURCE, BUILD)
    passed, failed, skipped = 0, 0, []
    machine.check_build()
    for peer in sides.PEERS:
        try:
            if not machine.build_peer(peer):
                skipped.append(peer)
                continue
            why = complaint(machine, peer)
        except sides.Failure as failure:
            why = str(failure)
        passed, failed = passed + (not why), failed + bool(why)
        print(f"FAILED {peer}: {why}" if why else f"ok {peer}")
    if skipped:
        print(f"  skipped: not installed: {', '.join(skipped)}; tools/setup peers installs them")
    if len(skipped) == len(sides.PEERS):
        return 77
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
