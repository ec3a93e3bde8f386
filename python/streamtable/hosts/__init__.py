"""Where streamtable runs: a session, the server, the command line, a notebook, a JVM without Python."""
