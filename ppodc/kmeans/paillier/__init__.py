"""The published protocols on Paillier ciphertexts at C1; exact, slow, for comparison."""
