"""What is known of the program: its modules, parameters, threads and settings."""
