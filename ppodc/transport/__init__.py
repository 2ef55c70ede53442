"""Bytes between parties: wire format, channels, CURVE sockets, calls to a gateway."""
