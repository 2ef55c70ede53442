"""Words that a page cannot avoid, explained for people who do not know them."""

_MEANINGS = {
    "rows are fixed": "Nobody can add, change or withdraw rows any more.",
    "round": "The clouds go through all rows once. They stop when nothing changes any more.",
    "iteration": "The clouds go through all rows once and move the centres.",
    "cluster": "A group of rows that are alike.",
    "centre": "The mean of all rows of a cluster, column by column.",
    "inertia": "How far the rows lie from the centres of their clusters, squared and added up.",
    "variance": "How far values lie from their mean, squared and averaged. Its square root is the "
    "standard deviation.",
    "correlation": "From -1 to 1: whether two columns rise and fall together. 0 means neither.",
    "epsilon": "How much the outcome can change with one record. The smaller, the less anybody "
    "can tell whether one person is in it. Values add up over studies.",
    "noise": "Random amounts that were added, so that no single record shows in the figures.",
    "seal": "A number made from everything written before. It changes when anything before it is "
    "changed or taken out.",
    "chain": "Each entry holds the seal of the one before it, so a changed entry is noticed.",
    "half": "What one cloud has of a value. Alone it is a random number.",
    "partner": "A row of another owner that matches yours by the rule of the study.",
    "cell": "A group of rows that are compared with each other. Rows in different cells are not.",
    "dummy row": "An invented row that hides how many real ones a cell has. It matches nothing.",
    "edit distance": "How many letters must be changed, added or left out to get the other word.",
    "study number": "A fingerprint of the whole text of the study. Another text has another one.",
    "limits": "The lowest and highest value that a column may hold. They are public.",
    "pair of workers": "One process at each cloud. Together they compute on the two halves.",
    "Ray": "The program that starts workers on the cloud's machines. A node is one machine.",
    "outcome": "How a request ended: answered, or the code of the refusal. "
    "The command ppodc explain says what a code means.",
    "health address": "Where the service tells how it is. It is for the cloud's own machines.",
    "TOML": "The plain text form of the study that owners agree to.",
    "steps": "Values are rounded to this many steps between the limits of their column.",
}


def meanings(words: list[str]) -> list[tuple[str, str]]:
    """(word, meaning) of each, as a list on a page has them."""
    return [(word[:1].upper() + word[1:], _MEANINGS[word]) for word in words]
