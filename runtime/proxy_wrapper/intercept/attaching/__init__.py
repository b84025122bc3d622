"""How functions of torch are observed: hooks, replaced functions, and what keeps the program from noticing them."""
