"""How a target is fed: the plan that was found by trying, the search for it, and the call that it makes."""
