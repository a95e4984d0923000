"""Files and folders: read without trust, written whole or not at all."""
