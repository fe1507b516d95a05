"""masu, a memory allocator for Linux that gives memory back.

``python -m masu app.py`` runs a program on it, unchanged; with anything else, ``python -m masu`` is the command ``masu``.
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
