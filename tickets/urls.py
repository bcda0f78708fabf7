"""Addresses of placed orders."""

from django.urls import path

from . import views

urlpatterns = [
    path("o/<str:secret>/", views.open_link, name="order-link"),
    path("orders/<str:code>/", views.order_page, name="order"),
    path("orders/<str:code>/status/", views.order_status, name="order-status"),
    path("orders/<str:code>/tickets.pdf", views.order_pdf, name="order-pdf"),
]
