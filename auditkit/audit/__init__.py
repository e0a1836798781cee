"""From a checkout to targets, results, findings by cause and tickets: `auditkit audit` and `init`."""
