"""The only door to Delta: no other room reads or writes Delta tables by itself. Most modules here ask the shim's DeltaBridge."""
