"""Python parts of octavo. Nothing is loaded before it is used."""
