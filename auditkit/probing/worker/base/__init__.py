"""What every package of the worker uses: lines of the checkout, ways to say "no answer", torch's inside."""
