"""`flush` of the test settings, called after a test. Django's truncates every table and makes
permissions anew: that costs more than most tests do.
"""

from typing import Any

from django.core.management.commands.flush import Command as Flush

from tests import emptying


class Command(Flush):
    def handle(self, **options: Any) -> None:
        if not emptying.delete_rows():
            super().handle(**options)
            emptying.remember()
