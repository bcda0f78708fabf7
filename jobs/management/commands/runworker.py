"""`manage.py runworker`: runs jobs until it is stopped, then finishes what runs."""

import asyncio
import logging
import os
import signal
import socket
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs.checks import durations, stop_timeout
from jobs.exits import Exit
from jobs.management.options import (
    add_metrics_options,
    process_name,
    serve_metrics,
    whole_number,
)
from jobs.notify import Notifier
from jobs.pool import Pool, default_processes
from jobs.pulse import TICK, Pulse
from jobs.runner import Runner
from jobs.sorting import Sorter
from jobs.stream import Letters, WorkerStream
from jobs.worker import Worker

SWITCH_INTERVAL = 0.001
"""Seconds: eight threads that never wait make the loop 1.5 s late at 5 ms, 0.08 s at 1 ms."""


class Command(BaseCommand):
    help = (
        "Run jobs from the stream. SIGTERM finishes what runs within the grace and hands back the "
        "rest, a second one leaves at once; SIGUSR1 reads no more and stays; SIGUSR2 logs what "
        "every slot is doing."
    )

    # They would end it with code 1; those that matter to a worker are made here, for its own grace.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--name",
            type=process_name,
            default=socket.gethostname(),
            help="the consumer, one live worker each; default: the host's name",
        )
        parser.add_argument("--slots", type=whole_number(1, 100), default=8, help="jobs at once")
        parser.add_argument(
            "--render-processes",
            type=whole_number(0, 64),
            default=default_processes(),
            help="processes for CPU work; 0 computes in the slots' threads",
        )
        parser.add_argument(
            "--grace",
            type=whole_number(0, 3600),
            default=settings.JOBS["GRACE"],
            help="seconds to finish",
        )
        parser.add_argument("--drain", action="store_true", help="leave once nothing is due")
        add_metrics_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        for problem in [*durations(), *stop_timeout(options["grace"])]:
            raise CommandError(f"{problem.msg} {problem.hint}", returncode=2)
        # Handlers that compute would otherwise keep the loop waiting 5 ms each for the interpreter.
        sys.setswitchinterval(SWITCH_INTERVAL)
        pulse = Pulse(TICK)
        serve_metrics("worker", options, pulse)
        try:
            stream = WorkerStream(settings.REDIS_URL, options["name"])
        except ValueError as error:
            raise CommandError(f"REDIS_URL: {error}", returncode=2) from error
        # Before the processes of the pool are made, which would inherit its address.
        notifier = Notifier.of(os.environ)
        pool = Pool(
            options["render_processes"],
            warm_up=settings.JOBS["WARM_UP"],
            renders=settings.JOBS["RENDERS_PER_PROCESS"],
            memory=settings.JOBS["COMPUTE_MEMORY"],
        )
        code, unfinished = asyncio.run(_work(stream, pool, notifier, pulse, options))
        # The closed loop left the default, which would be a death by signal.
        signal.signal(signal.SIGTERM, lambda *_: _leave_now(code))
        if unfinished:
            # The interpreter would wait for the threads that still run.
            _leave_now(code)
        pool.close()
        sys.exit(code)


async def _work(
    stream: WorkerStream, pool: Pool, notifier: Notifier, pulse: Pulse, options: dict[str, Any]
) -> tuple[Exit, int]:
    letters = Letters(settings.REDIS_URL)
    worker = Worker(
        stream,
        Runner(options["name"], pool, letters),
        Sorter(letters, options["name"]),
        slots=options["slots"],
        grace=options["grace"],
        drain=options["drain"],
        notifier=notifier,
        pulse=pulse,
    )
    signals = 0

    def on_stop() -> None:
        # A worker that stops by itself may still hand back what runs: only a second one cuts that.
        nonlocal signals
        signals += 1
        if signals > 1:
            _leave_now(max(worker.exit, Exit.UNFINISHED))
        worker.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_stop)
    loop.add_signal_handler(signal.SIGUSR1, worker.pause)
    loop.add_signal_handler(signal.SIGUSR2, worker.report)
    code = await worker.run()
    letters.close()
    return code, worker.unfinished


def _leave_now(code: Exit) -> None:
    try:
        # Raises in a signal handler that cut into the writing of a line.
        logging.shutdown()
    finally:
        os._exit(code)
