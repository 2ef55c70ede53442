"""Estimators in the manner of scikit-learn; `fit` does everything from upload to result."""
