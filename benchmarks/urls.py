"""The shop's addresses, and the bare view beside them in the same processes."""

from django.urls import include, path

from . import bare

urlpatterns = [
    path("bench/bare/", bare.place),
    path("", include("stagedoor.urls")),
]
