"""What every page of dead jobs has around it."""

from typing import Any

from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse


def page(
    admin: ModelAdmin[Any], request: HttpRequest, template: str, title: str, **context: Any
) -> HttpResponse:
    """A page in the admin's own frame, from `templates/admin/jobs/`."""
    request.current_app = admin.admin_site.name
    frame = {**admin.admin_site.each_context(request), "opts": admin.opts, "title": title}
    return TemplateResponse(request, f"admin/jobs/{template}", {**frame, **context})
