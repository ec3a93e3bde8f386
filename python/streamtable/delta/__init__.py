"""The seam to Delta: versions, snapshots, change sets and commits, by the shim's DeltaBridge; no other module talks to Delta."""
