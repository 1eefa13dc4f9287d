"""`python -m tutti.run -n 4 script.py`: starts the ranks of a job with the command `tutti run`.

It is the command of this package or, if the package has none, that of the system.
Options before the script are those of tutti-run(1). A script that ends in .py runs with this Python.
"""

import os
import sys
from pathlib import Path


def command(arguments: list[str]) -> list[str]:
    """Returns the command line of `tutti run`."""
    bundled = Path(__file__).parent / "bin" / "tutti"
    tutti = str(bundled) if bundled.exists() else "tutti"
    for i, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument.endswith(".py") or argument == "-m":
            return [tutti, "run", *arguments[:i], "--", sys.executable, *arguments[i:]]
    return [tutti, "run", *arguments]


def main() -> None:
    line = command(sys.argv[1:])
    os.execvp(line[0], line)


if __name__ == "__main__":
    main()
