"""Suite 2: values live as shares at both clouds; record-scale work is oblivious transfer.

Semi-honest clouds that do not collude; security from AES and one Paillier key; no dealer.
`half.SharesHalf` implements `ppodc.suite.Half` for both roles.
"""
