"""`auditkit run`: start a training program, read what its processes recorded, and judge it by the laws."""
