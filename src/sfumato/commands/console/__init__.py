"""What all commands share: options, and the streams that they write to."""
