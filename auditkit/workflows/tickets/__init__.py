"""One job each that people have with tickets: new, reviewed, moved, merged, imported."""
