"""The cache for sessions: a Redis that is away reads as empty and never fails a page."""

import logging
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


class ForgivingRedisCache(RedisCache):
    """Django's Redis cache whose reads miss and whose writes are dropped while Redis is away.

    For copies of what the database knows (sessions of staff); nothing may live here alone.
    """

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except RedisError as error:
            return self._away(error, default)

    def set(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().set(*args, **kwargs)
        except RedisError as error:
            self._away(error, None)

    def delete(self, key: Any, version: int | None = None) -> bool:
        try:
            return super().delete(key, version)
        except RedisError as error:
            return bool(self._away(error, False))

    def has_key(self, key: Any, version: int | None = None) -> bool:
        try:
            return super().has_key(key, version)
        except RedisError as error:
            return bool(self._away(error, False))

    @staticmethod
    def _away(error: RedisError, answer: Any) -> Any:
        logger.warning("cache does not answer: %s", type(error).__name__)
        return answer
