"""What can be typed?  One file a group of commands, loaded when it is used."""
