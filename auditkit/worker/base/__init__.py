"""What every package of the worker uses: lines of the checkout, refusals, torch's internals."""
