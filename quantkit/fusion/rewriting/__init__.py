"""How a rewrite is applied: rules, and the draft that they change."""
