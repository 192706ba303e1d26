"""Editors, and how RefDesk is entered into their settings."""
