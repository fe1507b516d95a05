"""The command, in the place of this process."""

import os
import sys

from . import command


def main() -> None:
    """Becomes the command: signals and the exit status are its own."""
    arguments = sys.argv[1:]
    # A program in Python where a verb would be runs on masu, in this interpreter.
    if arguments and arguments[0].endswith(".py"):
        arguments = ["run", "--", sys.executable, *arguments]
    os.execv(command(), ["masu", *arguments])


if __name__ == "__main__":
    main()
