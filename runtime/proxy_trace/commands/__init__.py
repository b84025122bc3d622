"""The commands of `proxy-trace`: options in, one call, an exit code out."""
