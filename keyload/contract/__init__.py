"""The contract as declarations: operations, types, enums, errors, limits and formats; no behaviour.

One module per feature holds its records and the operations that use them; `operations` and `mutations`
collect them.
"""
