"""`python -m streamtable.cli` is `streamtable`."""

from streamtable.cli.app import app

app(prog_name="streamtable")
