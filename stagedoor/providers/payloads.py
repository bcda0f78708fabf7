"""What every provider's payload does with the headers that are for the provider itself."""

from typing import Any

KEY = "Idempotency-Key"
"""As the message carries it. To a buyer it is no news, so no provider passes it on."""


class WithoutKey:
    """Mixed into a payload of anymail whose provider knows no keys."""

    def set_extra_headers(self, headers: Any) -> None:
        """All of them but the key."""
        headers.pop(KEY, None)
        super().set_extra_headers(headers)  # type: ignore[misc]
