"""File formats that quantkit reads without trusting them."""
