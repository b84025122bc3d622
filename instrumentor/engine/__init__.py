"""Processing many scripts: the unit of work, where units run, and the results kept between runs."""
