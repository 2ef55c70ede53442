"""Suite 1, as published: between steps every value is a Paillier ciphertext at C1.

C2 holds the secret key and answers a fixed menu of questions about masked values. Each primitive
is one file in which C1's half (a generator that yields its questions) faces C2's answer.
"""
