"""The environment as settings read it: a value that is none is told by its variable's name."""

import math
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured


class Environment(environ.Env):  # type: ignore[misc]  # its package has no types
    """django-environ's, whose `float()` takes `1e3` for 13, and names no variable."""

    def get_value(self, var: str, cast: Any = None, *args: Any, **options: Any) -> Any:
        """The value of the variable `var`; raises ImproperlyConfigured where it is no `cast`.

        The value is not quoted: it may be a secret that stands beside the wrong name.
        """
        try:
            return super().get_value(var, number if cast is float else cast, *args, **options)
        except ValueError as error:
            wanted = "a whole number" if cast is int else "a number"
            raise ImproperlyConfigured(f"{var} must be {wanted}, and is not.") from error


def number(text: str) -> float:
    """As Python writes it. Raises ValueError, for infinity and `nan` too."""
    if math.isfinite(value := float(text)):
        return value
    raise ValueError
