"""Where do bytes come from?  Local files, git, the web, data: URIs."""
