"""Programs for foreign interpreters, which import nothing of quantkit, and the channel to them."""
