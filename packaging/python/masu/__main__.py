"""The command, in the place of this process."""

import os
import sys

from . import command


def main() -> None:
    """Becomes the command: signals and the exit status are its own."""
    os.execv(command(), ["masu", *sys.argv[1:]])


if __name__ == "__main__":
    main()
