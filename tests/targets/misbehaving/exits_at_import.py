import os

print("licence not found, leaving", flush=True)
os._exit(7)
