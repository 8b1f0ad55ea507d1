"""Equation 1: private gradients and what is trained with them."""
