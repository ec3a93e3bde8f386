"""`python -m streamtable` is `streamtable`."""

from streamtable.hosts.cli.app import app

app(prog_name="streamtable")
