"""What a cloud keeps and answers: store, operations for owners and operators, configuration."""
