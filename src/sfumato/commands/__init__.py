"""One module per group of commands: each adds its parsers and runs them; imports wait until a command runs."""
