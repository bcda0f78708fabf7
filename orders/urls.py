"""Addresses of selling."""

from django.urls import path

from . import views

urlpatterns = [
    path("", views.event_list, name="event-list"),
    path("events/<slug:slug>/", views.event_page, name="event"),
    path("orders/", views.place, name="place-order"),
]
