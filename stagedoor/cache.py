"""The cache for sessions: a Redis that is away reads as empty and never fails a page."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


def _forgiving[**P, R](method: Callable[P, R], answer: Callable[P, R]) -> Callable[P, R]:
    """`method`, or `answer` of the same arguments while Redis is away."""

    @wraps(method)
    def forgiving(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except RedisError as error:
            logger.warning("cache does not answer: %s", type(error).__name__)
            return answer(*args, **kwargs)

    return forgiving


def _default(self: Any, key: Any, default: Any = None, version: int | None = None) -> Any:
    return default


class ForgivingRedisCache(RedisCache):
    """Django's Redis cache whose reads miss and whose writes are dropped while Redis is away.

    For copies of what the database knows (sessions of staff); nothing may live here alone, and
    nothing that counts: `incr` raises as ever.
    """

    get = _forgiving(RedisCache.get, _default)
    get_many = _forgiving(RedisCache.get_many, lambda *_, **__: {})
    has_key = _forgiving(RedisCache.has_key, lambda *_, **__: False)
    add = _forgiving(RedisCache.add, lambda *_, **__: False)
    touch = _forgiving(RedisCache.touch, lambda *_, **__: False)
    delete = _forgiving(RedisCache.delete, lambda *_, **__: False)
    set = _forgiving(RedisCache.set, lambda *_, **__: None)
    set_many = _forgiving(RedisCache.set_many, lambda *_, **__: [])
    delete_many = _forgiving(RedisCache.delete_many, lambda *_, **__: None)
