"""Every series that tickets export."""

from prometheus_client import Counter, Histogram

MISSING_GLYPHS = Counter(
    "stagedoor_missing_glyphs", "Code points printed without a glyph, each once per file."
)
RENDER_SECONDS = Histogram(
    "stagedoor_render_seconds",
    "Time to render the file of one order, waiting for a process included.",
    buckets=(0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
EMAIL_SECONDS = Histogram(
    "stagedoor_email_seconds",
    "Time of one call to the email provider.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20),
)
ORDER_EMAILED_SECONDS = Histogram(
    "stagedoor_order_emailed_seconds",
    "Time from placing an order until the provider has accepted the email with its tickets.",
    buckets=(1, 2.5, 5, 10, 20, 30, 60, 120, 240, 600, 1800, 3600),
)
BOUNCES = Counter(
    "stagedoor_bounces", "Accepted emails that came back, each once, by why.", ["reason"]
)
