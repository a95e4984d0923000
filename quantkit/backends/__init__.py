"""The engines that networks run in: one protocol, one registry."""
