"""How well the gateway finds tools: public and own sets of queries, without any model (GTW-41..43)."""
