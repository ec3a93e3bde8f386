"""The door to Delta: versions, snapshots, change sets and commits, by the shim's DeltaBridge."""
