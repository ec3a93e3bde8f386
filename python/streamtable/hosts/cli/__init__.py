"""The command line: `streamtable`, see docs/cli.md."""
