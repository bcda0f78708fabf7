"""Which of the system's libraries WeasyPrint will not find, and the packages that bring them.

Run by `make` after the requirements are installed; knows no Django.
"""

import ctypes
import ctypes.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """A shared library by the names under which a platform may have it."""

    title: str
    stem: str
    soname: str
    dylib: str
    without: str = "no PDF can be made"

    def loads(self) -> bool:
        """Whether the dynamic linker finds it under any of its names."""
        found = ctypes.util.find_library(self.stem)
        return any(_loads(name) for name in (self.soname, self.dylib, found) if name)


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


LIBRARIES = (
    Library("GObject", "gobject-2.0", "libgobject-2.0.so.0", "libgobject-2.0.0.dylib"),
    Library("Pango", "pango-1.0", "libpango-1.0.so.0", "libpango-1.0.dylib"),
    Library("PangoFT2", "pangoft2-1.0", "libpangoft2-1.0.so.0", "libpangoft2-1.0.dylib"),
    Library("HarfBuzz", "harfbuzz", "libharfbuzz.so.0", "libharfbuzz.0.dylib"),
    Library("Fontconfig", "fontconfig", "libfontconfig.so.1", "libfontconfig.1.dylib"),
    Library(
        "HarfBuzz's subset library",
        "harfbuzz-subset",
        "libharfbuzz-subset.so.0",
        "libharfbuzz-subset.0.dylib",
        without="every PDF takes six times as long",
    ),
)
PACKAGES = """\
Install them, then run make again:
  Debian, Ubuntu   apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0 libfontconfig1
  Fedora           dnf install pango harfbuzz fontconfig
  Alpine           apk add pango harfbuzz-subset fontconfig
  macOS            brew install pango harfbuzz fontconfig"""


def report(missing: Iterable[Library]) -> str:
    """What to tell about `missing`: one line each, and the packages that bring them."""
    lines = [
        f"{library.title} is not installed: without it {library.without}." for library in missing
    ]
    return "\n".join([*lines, PACKAGES])


def main() -> int:
    """Print what is missing to stderr; returns the exit code, 1 when something is."""
    missing = [library for library in LIBRARIES if not library.loads()]
    if missing:
        print(report(missing), file=sys.stderr)
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
