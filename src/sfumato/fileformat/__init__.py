"""What a release is on disk."""
