"""The command line: `streamtable`, see docs/reference/cli.md."""
