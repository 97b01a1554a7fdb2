"""Operators: state machines that take frames and give frames."""
