"""Kinds for drills: jobs that work, wait, fail, kill, hang. An app of the test settings alone."""
