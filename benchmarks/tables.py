"""Where the benchmarks' kinds of job leave their effects. Knows no Django."""

ROW, NOTHING, MOMENT = "bench_row", "bench_nothing", "bench_moment"
"""The kinds; the first and the last have a table of their name."""

CREATE = """
CREATE TABLE IF NOT EXISTS bench_row (outbox_id bigint PRIMARY KEY, number int NOT NULL);
CREATE TABLE IF NOT EXISTS bench_moment (outbox_id bigint PRIMARY KEY, started_ns bigint NOT NULL)
"""
WRITE_ROW = "INSERT INTO bench_row (outbox_id, number) VALUES (%s, %s)"
WRITE_MOMENT = "INSERT INTO bench_moment (outbox_id, started_ns) VALUES (%s, %s)"
