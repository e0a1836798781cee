"""What the reports say, computed: an audit, a batch of tickets, all tickets. Rendering only puts it into words."""
