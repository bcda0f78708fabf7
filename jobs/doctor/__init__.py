"""Whether the servers and settings are such that the promises hold: asks, compares, names remedies.

What a server does not let this user ask is a warning: rented servers keep some to themselves.
"""

from .examination import examine
from .finding import Finding, Level, exit_code

__all__ = ["Finding", "Level", "examine", "exit_code"]
