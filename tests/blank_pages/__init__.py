"""Files that cost no time, for stories in which what is on a page does not matter.

`BLANK` is the environment of processes that make them. The work still goes through the render
processes: its bytes come late, as those of a real page.
"""

BLANK = {"DJANGO_SETTINGS_MODULE": "tests.blank_pages.settings"}
