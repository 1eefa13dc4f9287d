# test: slow timeout=180
"""bench_peers_programs_test.py SOURCE BUILD: builds the programs of tools/bench-peers for each installed peer, and
checks that each runs one short case between 2 ranks with right results. Peers that are not installed are skipped, by
name. With the first peer, tools/bench-peers --busy measures two cells beside each kind of load, and is interrupted."""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

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


def run_busy(peer, *arguments):
    command = [sys.executable, os.path.join(SOURCE, "tools/bench-peers"), BUILD, "--quick", "--peers", f"{peer}:default",
               "--collectives", "allreduce", "--sizes", "8,64K", "--time-ms", "2", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))


def children_of(pid):
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                if file.read().rsplit(")", 1)[1].split()[1] == str(pid):
                    found.append(int(path.split("/")[2]))
        except OSError:
            continue
    return found


def is_alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def complaint_of_busy(peer):
    """Returns what is wrong with --busy; None if it is right."""
    with tempfile.TemporaryDirectory() as folder:
        data, lines = os.path.join(folder, "all.json"), os.path.join(folder, "table.tsv")
        tool = run_busy(peer, "--busy", "1,pool", "--json", data, "--table", lines)
        try:
            said, errors = tool.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            tool.send_signal(signal.SIGINT)
            return f"did not end within {LIMIT_S} s: {tool.communicate()}"
        if tool.returncode != 0:
            return f"status {tool.returncode}:\n{said}{errors}"
        with open(data, encoding="utf-8") as file:
            loads = {its["load"]: its["cells"] for its in json.load(file)["loads"]}
        found = {load: [(cell["bytes"], cell["regime"], len(cell["rivals"])) for cell in some] for load, some in loads.items()}
        if found != dict.fromkeys(("1", "pool"), [(8, "any", 1), (65536, "any", 1)]):
            return f"measured {found}"
        with open(lines, encoding="utf-8") as file:
            rows = [line.split("\t")[:3] for line in file.read().splitlines() if not line.startswith("#")]
        if rows[1:] != [[load, "allreduce", size] for load in ("1", "pool") for size in ("8", "64K")]:
            return f"wrote {rows}"
        return None if "load pool: " in said else f"said {said}"


def complaint_of_interruption(peer):
    """Interrupts the tool while a job and two loops run; returns what is wrong, or None."""
    tool = run_busy(peer, "--busy", "2", "--time-ms", "20000")
    until = time.monotonic() + LIMIT_S
    while len(children := children_of(tool.pid)) < 3 and tool.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    tool.send_signal(signal.SIGINT)
    try:
        said, errors = tool.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        tool.kill()
        return f"did not end within {LIMIT_S} s after an interruption: {tool.communicate()}"
    left = [pid for pid in children if is_alive(pid)]
    if len(children) < 3 or left or "interrupted" not in errors or "Traceback" in errors:
        return f"interrupted with children {children}, left {left}:\n{said}{errors}"
    return None


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
    for name, check in (("--busy", complaint_of_busy), ("--busy, interrupted", complaint_of_interruption)):
        if len(skipped) < len(sides.PEERS):
            why = check(next(peer for peer in ("gloo", "openmpi", "mpich") if peer not in skipped))
            passed, failed = passed + (not why), failed + bool(why)
            print(f"FAILED {name}: {why}" if why else f"ok {name}")
    if skipped:
        print(f"  skipped: not installed: {', '.join(skipped)}; tools/setup peers installs them")
    if len(skipped) == len(sides.PEERS):
        return 77
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
