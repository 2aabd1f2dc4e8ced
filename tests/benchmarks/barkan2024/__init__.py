"""The tables of Barkan et al. (2024) at any size; `aml_tables.py` is the script."""
