"""A cloud's services: store, operations for owners and operators, configuration."""
