"""Every address of the shop, and its pages for errors."""

from django.contrib import admin
from django.urls import include, path

from . import errors, health, hooks

urlpatterns = [
    path("", include("orders.urls")),
    path("", include("tickets.urls")),
    path("admin/", admin.site.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("hooks/mail/<slug:provider>/", hooks.mail_hook, name="mail-hook"),
]

handler400 = errors.bad_request
handler403 = errors.not_allowed
handler404 = errors.not_found
handler500 = errors.server_error

admin.site.site_header = "Stagedoor box office"
admin.site.site_title = "Stagedoor"
admin.site.index_title = "Box office"
