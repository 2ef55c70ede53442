"""Public frequencies of texts, such as a census office's list of surnames, from a file."""

from ppodc.errors import OptionError, TableError
from ppodc.records.read_table import read


def frequencies_of(option: str) -> tuple[str, dict[str, int]]:
    """(column, counts) from COLUMN=FILE, a table with the columns text and count."""
    column, sign, file = option.partition("=")
    if not sign or not column or not file:
        raise OptionError("frequencies are given as COLUMN=FILE, such as surname=surnames.csv.")
    table = read(file, texts=("text",))
    if "text" not in table.texts or (table.names or []).count("count") != 1:
        raise TableError(f"{file} must have the columns text and count.")
    counts = table.some_columns(["count"]).values[:, 0]
    texts = table.texts["text"]
    if not all(isinstance(text, str) for text in texts) or not (counts >= 0).all():
        raise TableError(f"{file}: each line needs a text and a count that is not negative.")
    return column, {text: int(n) for text, n in zip(texts, counts.tolist(), strict=True)}
