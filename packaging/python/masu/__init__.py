"""masu, a memory allocator for Linux that gives memory back.

``masu run -- python app.py`` runs a program on it, unchanged; ``python -m masu`` is the same command.
"""

import os

__version__ = "@version@"
__all__ = ["command", "library"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def library() -> str:
    """The path of the shared library, for ``LD_PRELOAD``."""
    return os.path.join(_HERE, "lib", "libmasu.so.0")


def command() -> str:
    """The path of the command ``masu``."""
    return os.path.join(_HERE, "bin", "masu")
