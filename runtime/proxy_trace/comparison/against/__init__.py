"""What a good run of the same script had and another one has not."""
