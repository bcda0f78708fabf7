"""gunicorn's settings: the web part, on the loopback address behind a proxy."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

bind = f"127.0.0.1:{os.environ.get('PORT', '8000')}"
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
worker_class = "gthread"
threads = 4
graceful_timeout = 8
# A heartbeat file on a slow disk would make a healthy worker look hung.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
# The application logs requests itself, with request id and trace.
accesslog = None
# Its own few lines look like the application's: JSON in production, readable elsewhere.
development = os.environ.get("DJANGO_SETTINGS_MODULE", "").endswith((".development", ".testing"))
readable = os.environ.get("LOG_FORMAT", "readable" if development else "json") == "readable"
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": f"stagedoor.logs.{'Readable' if readable else 'Json'}Formatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "gunicorn.error": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
    },
}
# Its default path is one per user: two copies would take it from each other.
control_socket_disable = True

# The processes add their series up in files, here and not on a disk: each request writes to them.
# Before the application is loaded: it decides by this variable how it counts.
prefix = "stagedoor-metrics-"
if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    mine = tempfile.mkdtemp("", f"{prefix}{os.getpid()}-", worker_tmp_dir)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = mine
metrics = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def on_starting(server: Any) -> None:
    """Begin to count at 0: what an earlier master left would be added to it for ever."""
    metrics.mkdir(exist_ok=True)
    for left in metrics.glob("*.db"):
        left.unlink(missing_ok=True)
    for folder in metrics.parent.glob(f"{prefix}*-*"):
        # Of a master that was killed: nobody else would ever take it away.
        if not lives(folder.name.removeprefix(prefix).partition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)


def lives(pid: str) -> bool:
    """Whether there is such a process, of whomever; or no telling."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OSError):
        return True
    return True


def post_fork(server: Any, worker: Any) -> None:
    """Load the release that `current` leads to now, all of it, and stay with it.

    What the master has loaded is of the release that it was started from, and what is found through
    the link later would be of the next one: pages that do not fit the code that fills them in.
    """
    for name, module in list(sys.modules.items()):
        installed = "site-packages" in (getattr(module, "__file__", None) or "")
        if installed and name.partition(".")[0] not in ("__main__", "gunicorn"):
            del sys.modules[name]
    sys.path[:] = [os.path.realpath(entry) for entry in sys.path]


def child_exit(server: Any, worker: Any) -> None:
    """Take back the live gauges of a worker that ended; its counts stay."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(server: Any) -> None:
    """Leave nothing in the memory of the machine."""
    with contextlib.suppress(OSError):
        shutil.rmtree(metrics)
