"""To come."""

from refdesk.console.site import View

VIEWS: dict[str, View] = {}
