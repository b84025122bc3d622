"""The process that is traced: its launch, its forks, its signals, and threads beside the program's."""
