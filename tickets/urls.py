"""Addresses of placed orders."""

from django.urls import path

from . import buyer_refund, buyer_views, door_views, views

urlpatterns = [
    path("door/", door_views.doors, name="doors"),
    path("door/<slug:slug>/", door_views.door_page, name="door"),
    path("o/<str:secret>/", views.open_link, name="order-link"),
    path("orders/<str:code>/", views.order_page, name="order"),
    path("orders/<str:code>/status/", views.order_status, name="order-status"),
    path("orders/<str:code>/refund/", buyer_refund.refund_page, name="order-refund"),
    path("orders/<str:code>/tickets.pdf", views.order_pdf, name="order-pdf"),
    path("orders/<str:code>/resend/", buyer_views.resend, name="order-resend"),
    path("orders/<str:code>/tickets/<int:seq>/holder/", buyer_views.holder, name="ticket-holder"),
    path("lost-link/", buyer_views.lost_link, name="lost-link"),
]
