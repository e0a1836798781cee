"""Tickets, their reviews, relations and claims."""
