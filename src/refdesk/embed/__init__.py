"""Embedders: the shipped static model, and others behind the same port."""
