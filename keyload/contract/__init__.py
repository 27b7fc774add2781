"""The contract as declarations: operations, types, enums, errors, limits and formats; no behaviour.

One module per feature holds its records and, beside them, its operations; `operations` and `mutations` collect them.
"""
