"""On the clock of 24 hours, with the zone where there is one: a wall clock has none."""

DATETIME_FORMAT = "j M Y H:i e"
