"""Prints a table and writes it."""

import pandas as pd

from barkan2024.options import Given


def show(given: Given, title: str, table: pd.DataFrame, name: str) -> None:
    """Prints a table under its title and writes it to NAME.csv."""
    given.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(given.out / f"{name}.csv")
    print(f"\n{title}\n{'-' * len(title)}\n{table.to_string()}")
