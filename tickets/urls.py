"""Addresses of placed orders."""

from django.urls import path

from . import door_views, views

urlpatterns = [
    path("door/", door_views.doors, name="doors"),
    path("door/<slug:slug>/", door_views.door_page, name="door"),
    path("o/<str:secret>/", views.open_link, name="order-link"),
    path("orders/<str:code>/", views.order_page, name="order"),
    path("orders/<str:code>/status/", views.order_status, name="order-status"),
    path("orders/<str:code>/tickets.pdf", views.order_pdf, name="order-pdf"),
]
