"""The last step before a child's program: change the user, die with the parent, become the program.

Run as a file in an interpreter of its own, since code between fork and exec must not run in a
process with threads. Arguments: the parent's pid, the signal that its death sends (a number), the
uid and gid to change to or `-` for both, then the program and its arguments. Knows no Django.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PARENT_IS_GONE = 75


def change_user(uid: str, gid: str) -> None:
    """Become `uid` and `gid` for good, without further groups; nothing when both are `-`."""
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
        os.chdir("/")


def die_with(parent: int, number: int) -> None:
    """Ask Linux to send this process signal `number` when `parent` dies; elsewhere do nothing."""
    if sys.platform != "linux":
        return
    # A change of user clears this, so it comes last; a parent that died before it is never told.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(PARENT_IS_GONE)


def main() -> None:
    """Become the program that the command line names."""
    parent, number, uid, gid, *program = sys.argv[1:]
    change_user(uid, gid)
    die_with(int(parent), int(number))
    # What is ignored here stays ignored in the program: Python does so to the first two, and a
    # shell to the third in what it starts in the background.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main()
