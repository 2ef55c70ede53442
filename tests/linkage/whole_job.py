"""Links that a linkage must find, and a check of what owners opened."""


def expected(given_rows, matches, names):
    """Links of every owner's rows by a predicate on rows: {owner: [sorted links of each row]}.

    `given_rows` is [(owner, rows)] of all uploads.
    """
    numbered, seen = [], {}
    for owner, rows in given_rows:
        upload = seen.get(owner, 0)
        seen[owner] = upload + 1
        numbered += [(owner, upload, number, row) for number, row in enumerate(rows)]
    return {
        name: [
            sorted(
                (other, upload, number)
                for other, upload, number, partner in numbered
                if other != owner and matches(row, partner)
            )
            for owner, _, _, row in numbered
            if owner == name
        ]
        for name in names
    }


def check(results, wanted, most: int = 1) -> int:
    """Whether every owner has exactly these links; how many there are."""
    total = 0
    for owner, links in wanted.items():
        result = results[owner]
        assert result.partners_ == [min(len(each), most + 1) for each in links], owner
        assert [sorted(each) for each in result.links_] == [
            each if len(each) <= most else [] for each in links
        ]
        total += sum(map(len, links))
    return total
