"""What backs the numbers of docs/evidence: each measures, stores JSON under results, and writes its page."""
