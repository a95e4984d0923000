"""The command line: one file per verb; what is printed, exit codes and progress live here only."""
