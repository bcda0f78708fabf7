"""Private PostgreSQL and Valkey servers, as children of this process.

For development, tests and a look: loopback only, passwords made at random and kept off every
command line. Knows no Django.
"""

from .postgres import PostgresServer
from .server import Server, ServerFailed, free_port
from .valkey import RedisServer

__all__ = ["PostgresServer", "RedisServer", "Server", "ServerFailed", "free_port"]
