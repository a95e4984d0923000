"""What is measured: suites, and variants of networks."""
