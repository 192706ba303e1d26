"""Sources of content: folders, files, git metadata, the web, data: URIs."""
