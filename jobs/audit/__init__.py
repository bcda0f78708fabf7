"""Proves the books (design §8a): each job in one place, each effect with its job, nothing lost.

SQL and raw Redis commands only. What is audited (outbox, relay, runner, conclusion, models) is not
imported: an error there must not hide itself here. Apps register their rules in modules `audit`.
"""

from .books import ON_STREAM, Report, audit
from .rules import PURGED, Rule, purged, register, registered

__all__ = ["ON_STREAM", "PURGED", "Report", "Rule", "audit", "purged", "register", "registered"]
