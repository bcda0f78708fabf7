"""The composition as a Django app: start-up checks and the commands of `make run`."""

from django.apps import AppConfig


class StagedoorConfig(AppConfig):
    name = "stagedoor"
    verbose_name = "Stagedoor"
