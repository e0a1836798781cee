"""What things are: frozen dataclasses and enums; stdlib only; no I/O."""
