"""Why a network is as accurate and as fast as it is."""
