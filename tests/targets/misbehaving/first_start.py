"""What starts_second_time leaves behind."""

done = False
