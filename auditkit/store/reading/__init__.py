"""From a document to the model: what each section of a ticket says."""
