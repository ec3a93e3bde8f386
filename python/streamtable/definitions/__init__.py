"""Changes of definitions: CREATE, ALTER, OR REPLACE, RENAME and DROP STREAM TABLE. Each is checked before its first effect."""
